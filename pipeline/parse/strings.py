"""Strings, and bytes in base64.

A string with NUL (`\\u0000`) is refused: databases and files cut it there, and two keys would look like one. A lone
surrogate (`\\ud800`) has no UTF-8 and cannot become a column.
"""

from __future__ import annotations

import base64
import math
import re
from functools import lru_cache, reduce
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.config.contracts import Field
from pipeline.parse.kinds import Kind, Mask
from pipeline.parse.loops import layout
from pipeline.parse.reasons import BAD_TEXT, OUT_OF_RANGE, WRONG_TYPE
from pipeline.parse.rules import Texts

_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")
_SURROGATE = re.compile("[\ud800-\udfff]")
_ANY_LENGTH = 1 << 62
_CACHED = 100  # characters; a cache of megabytes-long strings would be a leak


class TextKind(Kind):
    """What every field has in common that a message gives as a string."""

    kind: ClassVar[int]

    def __init__(self, field: Field) -> None:
        super().__init__(field)
        self._allowed = allowed = Texts.of(field)
        self.rule = {layout.KIND: self.kind, layout.SHORTEST: min(_ANY_LENGTH, math.ceil(allowed.shortest))}
        longest = math.inf if allowed.longest is None else allowed.longest
        self.rule[layout.LONGEST] = math.floor(min(_ANY_LENGTH, longest))
        among = allowed.among
        self._among = None if among is None else pa.array([text for text in among if text is not None], pa.string())
        self.needs_text = self.kind != layout.TEXT and (among is not None or allowed.pattern is not None)

    def sure(self, column: pa.Array, texts: pa.Array) -> Mask | None:
        checks = [pc.is_in(texts, self._among)] if self._among is not None else []
        if self._allowed.pattern is not None:
            checks.append(pc.match_substring_regex(texts, self._allowed.pattern))
        if not checks:
            return None
        sure: Mask = pc.or_kleene(pc.is_null(column), reduce(pc.and_, checks)).to_numpy(zero_copy_only=False)
        return sure

    def text(self, given: Any) -> str:
        """One JSON value as a string that keeps every rule; raises `Reject`."""
        if type(given) is not str:
            raise self.reject(WRONG_TYPE, given, "is not a string")
        if not given.isascii() and _SURROGATE.search(given):
            raise self.reject(BAD_TEXT, given, "holds a lone surrogate")
        allowed = self._allowed
        if len(given) < allowed.shortest or (allowed.longest is not None and len(given) > allowed.longest):
            raise self.reject(OUT_OF_RANGE, given, f"has {len(given)} characters")
        if allowed.pattern is not None and not _matches(allowed.pattern, given):
            raise self.reject(BAD_TEXT, given, "does not match")
        if allowed.among is not None and given not in allowed.among:
            raise self.reject(OUT_OF_RANGE, given, "is not allowed")
        return given


class Text(TextKind):
    kind = layout.TEXT

    def __init__(self, field: Field) -> None:
        super().__init__(field)
        self.needs = f"a string{self._allowed} without NUL"

    def value(self, given: Any) -> str:
        text = self.text(given)
        if "\0" in text:
            raise self.reject(BAD_TEXT, given, "holds NUL")
        return text


class Base64(TextKind):
    """Standard alphabet, padded, canonical: every value has one spelling."""

    kind = layout.BASE64

    def __init__(self, field: Field) -> None:
        super().__init__(field)
        self.needs = f"a base64 string{self._allowed} with padding"

    def value(self, given: Any) -> bytes:
        value = _decoded(self.text(given))
        if value is None:
            raise self.reject(BAD_TEXT, given, "is not base64")
        return value


def _decoded(text: str) -> bytes | None:
    if len(text) % 4 or not _BASE64.fullmatch(text):
        return None
    value = base64.b64decode(text)
    return value if base64.b64encode(value) == text.encode() else None


def _matches(pattern: str, text: str) -> bool:
    """By the engine that judges whole columns, so that both paths agree."""
    return _matches_cached(pattern, text) if len(text) <= _CACHED else _matches_now(pattern, text)


def _matches_now(pattern: str, text: str) -> bool:
    return bool(pc.match_substring_regex(pa.array([text]), pattern)[0].as_py())


_matches_cached = lru_cache(maxsize=4096)(_matches_now)  # the engine compiles the pattern at each call
