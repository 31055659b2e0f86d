"""Strings, and bytes in base64.

A string with NUL (`\\u0000`) is refused: databases and files cut it there, and two keys would look like one. A lone
surrogate (`\\ud800`) has no UTF-8 and cannot become a column.
"""

from __future__ import annotations

import base64
import re
from functools import lru_cache
from typing import Annotated, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.config.contracts import Field
from pipeline.parse.kinds import Kind, QuickValues
from pipeline.parse.reasons import BAD_TEXT, OUT_OF_RANGE, WRONG_TYPE
from pipeline.parse.rules import Texts
from pipeline.parse.texts import ByteTexts, Mask

_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")
_SURROGATE = re.compile("[\ud800-\udfff]")
_CACHED = 100  # characters; a cache of megabytes-long strings would be a leak


class TextKind(Kind):
    """What every field has in common that a message gives as a string."""

    def __init__(self, field: Field) -> None:
        super().__init__(field)
        self._allowed = allowed = Texts.of(field)
        self.wire = Annotated[str, msgspec.Meta(min_length=allowed.shortest, max_length=allowed.longest)]
        self._among = None if allowed.among is None else pa.array(sorted(allowed.among), pa.string())

    def texts(self, given: list[Any]) -> QuickValues:
        """The strings msgspec decoded, by every rule that it did not check."""
        texts = pa.array(given, pa.string())
        sure: Mask | None = None
        if self._allowed.pattern is not None:
            sure = _mask(pc.match_substring_regex(texts, self._allowed.pattern))
        if self._among is not None:
            among = _mask(pc.is_in(texts, self._among))
            sure = among if sure is None else sure & among
        if sure is not None and texts.null_count:
            sure |= _mask(pc.is_null(texts))
        return QuickValues(texts, sure)

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
    def __init__(self, field: Field) -> None:
        super().__init__(field)
        self.needs = f"a string{self._allowed} without NUL"

    def column(self, given: list[Any]) -> QuickValues:
        texts, sure = self.texts(given)
        characters = ByteTexts.of_array(texts)
        if characters.data.all():
            return QuickValues(texts, sure)
        sure = np.ones(len(texts), bool) if sure is None else sure
        sure[np.searchsorted(characters.starts, np.flatnonzero(characters.data == 0), side="right") - 1] = False
        return QuickValues(texts, sure)

    def value(self, given: Any) -> str:
        text = self.text(given)
        if "\0" in text:
            raise self.reject(BAD_TEXT, given, "holds NUL")
        return text


class Base64(TextKind):
    """Standard alphabet, padded, canonical: every value has one spelling."""

    def __init__(self, field: Field) -> None:
        super().__init__(field)
        self.needs = f"a base64 string{self._allowed} with padding"

    def column(self, given: list[Any]) -> QuickValues:
        _, sure = self.texts(given)
        values = [None if text is None else _decoded(text) for text in given]
        good = np.array([(text is None) == (value is None) for text, value in zip(given, values, strict=True)])
        return QuickValues(pa.array(values, pa.binary()), good if sure is None else sure & good)

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


def _mask(flags: pa.Array) -> Mask:
    mask: Mask = pc.fill_null(flags, False).to_numpy(zero_copy_only=False)
    return mask
