"""Values that the contract does not name, in compiled loops: JSON all the same, and not nested too deep."""

from __future__ import annotations

from pipeline.compiling import piece
from pipeline.parse.loops.layout import UNSURE
from pipeline.parse.loops.memory import byte_at, int_at
from pipeline.parse.loops.texts import QUOTE, ZERO, after_space, after_string

NULL, TRUE = (int.from_bytes(word, "little") for word in (b"null", b"true"))
ALSE = int.from_bytes(b"alse", "little")
_LEVELS = 63  # within the message, which is one itself
_COMMA, _COLON = ord(","), ord(":")
_OPENED, _CLOSED, _BRACKET, _BRACKET_CLOSED = ord("{"), ord("}"), ord("["), ord("]")


@piece
def after_colon(at: int, end: int) -> int:
    """Where the value begins whose name's closing quote is before this place."""
    if at < end and byte_at(at) == _COLON:
        return after_space(at + 1, end)
    at = after_space(at, end)
    if at >= end or byte_at(at) != _COLON:
        return UNSURE
    return after_space(at + 1, end)


@piece
def _after_name(at: int, end: int, limit: int) -> int:
    """Where a member's value begins."""
    at = after_space(at, end)
    if at >= end or byte_at(at) != QUOTE:
        return UNSURE
    at = after_string(at + 1, end, limit)
    return at if at < 0 else after_colon(at, end)


@piece
def _after_word(at: int, end: int) -> int:
    """Behind true, false, null."""
    if at + 4 <= end and (int_at(at) == TRUE or int_at(at) == NULL):
        return at + 4
    if at + 5 <= end and byte_at(at) == ord("f") and int_at(at + 1) == ALSE:
        return at + 5
    return UNSURE


@piece
def _after_digits(at: int, end: int) -> int:
    first = at
    while at < end and ZERO <= byte_at(at) <= ord("9"):
        at += 1
    return at if at > first else UNSURE


@piece
def _after_number(at: int, end: int) -> int:
    at += byte_at(at) == ord("-")
    after = _after_digits(at, end)
    if after < 0 or (after > at + 1 and byte_at(at) == ZERO):
        return UNSURE
    if after < end and byte_at(after) == ord("."):
        after = _after_digits(after + 1, end)
    if 0 <= after < end and byte_at(after) | 0x20 == ord("e"):
        after += 1
        after += after < end and (byte_at(after) == ord("+") or byte_at(after) == ord("-"))
        after = _after_digits(after, end)
    return after


@piece
def after_value(at: int, end: int, limit: int) -> int:
    """Behind a value of any kind that begins here."""
    depth, kinds = 0, 0  # a bit a level: is it an object?
    while True:
        at = after_space(at, end)
        if at >= end:
            return UNSURE
        byte = byte_at(at)
        if byte == QUOTE:
            at = after_string(at + 1, end, limit)
        elif byte in (_OPENED, _BRACKET):
            depth += 1
            if depth > _LEVELS:
                return UNSURE
            at = after_space(at + 1, end)
            if at >= end:
                return UNSURE
            kinds = kinds << 1 | (byte == _OPENED)
            if byte_at(at) != (_CLOSED if byte == _OPENED else _BRACKET_CLOSED):
                if byte == _OPENED:
                    at = _after_name(at, end, limit)
                if at < 0:
                    return UNSURE
                continue
        elif byte == ord("-") or ZERO <= byte <= ord("9"):
            at = _after_number(at, end)
        else:
            at = _after_word(at, end)
        if at < 0:
            return UNSURE
        # What ends here may end what it is in.
        while True:
            if depth == 0:
                return at
            at = after_space(at, end)
            if at >= end:
                return UNSURE
            byte, at = byte_at(at), at + 1
            if byte == _COMMA:
                break
            if byte != (_CLOSED if kinds & 1 else _BRACKET_CLOSED):
                return UNSURE
            depth, kinds = depth - 1, kinds >> 1
        if kinds & 1:
            at = _after_name(at, end, limit)
            if at < 0:
                return UNSURE
