"""Why a message is not a valid sale."""

from __future__ import annotations

from typing import Any

EMPTY = "empty"
TOO_LARGE = "too_large"
NOT_UTF8 = "not_utf8"
NOT_JSON = "not_json"
TOO_DEEP = "too_deep"
NOT_AN_OBJECT = "not_an_object"
DUPLICATE_FIELD = "duplicate_field"
MISSING_FIELD = "missing_field"
WRONG_TYPE = "wrong_type"
OUT_OF_RANGE = "out_of_range"
BAD_TEXT = "bad_text"
BAD_TIMESTAMP = "bad_timestamp"
ALL = (
    EMPTY, TOO_LARGE, NOT_UTF8, NOT_JSON, TOO_DEEP, NOT_AN_OBJECT,
    DUPLICATE_FIELD, MISSING_FIELD, WRONG_TYPE, OUT_OF_RANGE, BAD_TEXT, BAD_TIMESTAMP,
)  # fmt: skip

_SHOWN = 40  # characters of a value that a sentence repeats


class Reject(Exception):
    """One message is not a valid sale: a code to count by, and a sentence for the sender who has to correct it."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail


class Number(str):
    """A JSON number as it was written. Nothing is rounded before somebody has decided what it may be."""

    __slots__ = ()


class Members(list[tuple[str, Any]]):
    """A JSON object as it was written: its members in order, duplicates included."""

    __slots__ = ()


def shown(given: Any) -> str:
    """A JSON value as a sentence may repeat it: short, one line, printable ASCII.

    >>> shown("Z" * 50 + chr(0)), shown(Number("12.50")), shown(None), shown([1])
    ("'ZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZ…'", '12.50', 'null', 'an array')
    """
    if isinstance(given, str):
        cut = given[:_SHOWN] if isinstance(given, Number) else ascii(given[:_SHOWN])
        return cut if len(given) <= _SHOWN else f"{cut[:-1]}…'" if cut[-1] in "'\"" else f"{cut}…"
    if isinstance(given, Members):
        return "an object"
    if isinstance(given, list):
        return "an array"
    return {None: "null", True: "true", False: "false"}[given]
