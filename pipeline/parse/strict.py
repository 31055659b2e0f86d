"""The strict path: one message, judged exactly, with the reason if it is no sale."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, NoReturn

import numpy as np

from pipeline.config.contracts import TopicContract
from pipeline.parse import reasons
from pipeline.parse.kinds import Kind
from pipeline.parse.reasons import Members, Number, Reject, shown

MAX_DEPTH = 64  # levels of arrays and objects; Python's own readers manage far more
_WHITESPACE = " \t\r\n"


def _no_number(literal: str) -> NoReturn:
    raise Reject(reasons.NOT_JSON, f"{literal} is not JSON; numbers are finite.")


_READER = json.JSONDecoder(object_pairs_hook=Members, parse_int=Number, parse_float=Number, parse_constant=_no_number)


class Judge:
    """Decides alone what a valid message is; the fast path may only say yes earlier."""

    def __init__(self, contract: TopicContract, kinds: list[Kind]) -> None:
        self._kinds = [(kind.field.name, kind) for kind in kinds]
        self._names = {field.name for field in contract.fields}

    def sale(self, message: bytes) -> list[Any]:
        """The message's values in the order of the contract's columns; raises `Reject`."""
        members = _members(_text(message))
        given = dict(members)
        if len(given) < len(members):
            self._refuse_duplicates(members)
        row = []
        for name, kind in self._kinds:
            value = given.get(name)
            if value is None:
                _require_no_value(kind, given)
            row.append(None if value is None else kind.value(value))
        return row

    def _refuse_duplicates(self, members: Members) -> None:
        for name, times in Counter(name for name, _ in members).items():
            if times > 1 and name in self._names:
                raise Reject(reasons.DUPLICATE_FIELD, f"{name}: given {times} times; needed: once.")


def _require_no_value(kind: Kind, given: dict[str, Any]) -> None:
    """Refuse a field that is null or missing but may not be."""
    field = kind.field
    if field.name not in given and field.required:
        raise Reject(reasons.MISSING_FIELD, f"{field.name}: missing; needed: {kind.needs}.")
    if field.name in given and not field.nullable:
        raise kind.reject(reasons.WRONG_TYPE, None, "is not allowed")


def _text(message: bytes) -> str:
    try:
        text = message.decode("utf-8")
    except UnicodeDecodeError as error:
        detail = f"byte {error.start} (0x{message[error.start]:02x}) is not UTF-8: {error.reason}."
        raise Reject(reasons.NOT_UTF8, detail) from None
    if text.startswith("\ufeff"):
        raise Reject(reasons.NOT_JSON, "the message begins with a byte order mark; needed: the JSON object alone.")
    if text.count("[") + text.count("{") > MAX_DEPTH and (depth := _depth(text)) > MAX_DEPTH:
        raise Reject(reasons.TOO_DEEP, f"arrays and objects are nested {depth} levels deep; allowed: {MAX_DEPTH}.")
    return text


def _depth(text: str) -> int:
    """How deep the brackets outside of strings are nested."""
    outside = "".join(text.replace("\\\\", "").replace('\\"', "").split('"')[::2])
    characters = np.frombuffer(outside.encode("utf-8"), np.uint8)
    opened = np.isin(characters, tuple(b"[{")).astype(np.int64)
    closed = np.isin(characters, tuple(b"]}"))
    return int((opened - closed).cumsum().max(initial=0))


def _members(text: str) -> Members:
    try:
        document = _READER.decode(text)
    except json.JSONDecodeError as error:
        if not text.strip(_WHITESPACE):
            raise Reject(reasons.EMPTY, "the message holds nothing but white space.") from None
        raise Reject(reasons.NOT_JSON, f"at character {error.pos}: {error.msg}.") from None
    except RecursionError:
        raise Reject(reasons.TOO_DEEP, f"nested too deep; allowed: {MAX_DEPTH} levels.") from None
    if not isinstance(document, Members):
        raise Reject(reasons.NOT_AN_OBJECT, f"the message is {shown(document)}; needed: one JSON object.")
    return document
