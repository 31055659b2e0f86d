"""Strings in JSON, in compiled loops: where one ends, what it says, how long it is.

`at` is a place in a message that ends at `end`; up to `limit` memory may be read, though it be other messages'.
"""

from __future__ import annotations

from pipeline.compiling import piece
from pipeline.parse.loops.layout import FULL, ROOM, UNSURE
from pipeline.parse.loops.memory import byte_at, copied, lowest_bit, put_byte, special

QUOTE, BACKSLASH, ZERO = ord('"'), ord("\\"), ord("0")


@piece
def after_space(at: int, end: int) -> int:
    """The first place that is no white space."""
    while at < end:
        byte = byte_at(at)
        if byte > 32 or not (byte == 32 or byte == 9 or byte == 10 or byte == 13):
            break
        at += 1
    return at


@piece
def after_plain(at: int, end: int, limit: int) -> int:
    """The first place that is no printable ASCII, or is a quote or a backslash."""
    while at + 16 <= limit:
        marks = special(at)
        if marks:
            return min(at + lowest_bit(marks), end)
        at += 16
        if at >= end:
            return end
    while at < end:
        byte = byte_at(at)
        if byte < 32 or byte > 127 or byte in (QUOTE, BACKSLASH):
            break
        at += 1
    return at


@piece
def after_string(at: int, end: int, limit: int) -> int:
    """Behind the closing quote of a string that begins at `at`; nobody wants to know what it says."""
    while True:
        at = after_plain(at, end, limit)
        if at >= end:
            return UNSURE
        byte = byte_at(at)
        if byte == QUOTE:
            return at + 1
        if byte == BACKSLASH:
            at = _after_escape(at, end)
        elif byte > 127:
            at = after_character(at, end)
        else:
            return UNSURE
        if at < 0:
            return UNSURE


@piece
def _after_escape(at: int, end: int) -> int:
    if at + 2 > end:
        return UNSURE
    if byte_at(at + 1) == ord("u"):
        return at + 6 if unit_at(at, end) >= 0 else UNSURE
    return at + 2 if _meant(byte_at(at + 1)) >= 0 else UNSURE


@piece
def after_character(at: int, end: int) -> int:
    """Behind a character of several bytes, as UTF-8 has it: none too long, no surrogate, none beyond U+10FFFF."""
    first = byte_at(at)
    if first < 0xC2 or first > 0xF4:
        return UNSURE
    more = 1 + (first >= 0xE0) + (first >= 0xF0)
    if at + more >= end:
        return UNSURE
    second = byte_at(at + 1)
    lowest = 0xA0 if first == 0xE0 else 0x90 if first == 0xF0 else 0x80
    highest = 0x9F if first == 0xED else 0x8F if first == 0xF4 else 0xBF
    if second < lowest or second > highest:
        return UNSURE
    for place in range(at + 2, at + more + 1):
        if byte_at(place) & 0xC0 != 0x80:
            return UNSURE
    return at + more + 1


@piece
def _meant(byte: int) -> int:
    """What a letter behind a backslash stands for; -1 if for nothing."""
    if byte in (QUOTE, BACKSLASH, ord("/")):
        return byte
    if byte == ord("n"):
        return 10
    if byte == ord("t"):
        return 9
    if byte == ord("r"):
        return 13
    if byte == ord("b"):
        return 8
    return 12 if byte == ord("f") else -1


@piece
def unit_at(at: int, end: int) -> int:
    r"""The number in \uXXXX; -1 if there is none."""
    if at + 6 > end or byte_at(at) != BACKSLASH or byte_at(at + 1) != ord("u"):
        return -1
    unit = 0
    for place in range(at + 2, at + 6):
        byte = byte_at(place)
        letter = byte | 0x20
        if ZERO <= byte <= ord("9"):
            unit = unit * 16 + byte - ZERO
        elif ord("a") <= letter <= ord("f"):
            unit = unit * 16 + letter - ord("a") + 10
        else:
            return -1
    return unit


@piece
def put_character(to: int, code: int) -> int:
    """Write a character in UTF-8; behind it."""
    if code < 0x80:
        put_byte(to, code)
        return to + 1
    if code < 0x800:
        put_byte(to, 0xC0 | code >> 6)
        put_byte(to + 1, 0x80 | code & 0x3F)
        return to + 2
    if code < 0x10000:
        put_byte(to, 0xE0 | code >> 12)
    else:
        put_byte(to, 0xF0 | code >> 18)
        put_byte(to + 1, 0x80 | code >> 12 & 0x3F)
        to += 1
    put_byte(to + 1, 0x80 | code >> 6 & 0x3F)
    put_byte(to + 2, 0x80 | code & 0x3F)
    return to + 3


@piece
def _put_escaped(at: int, end: int, to: int) -> tuple[int, int]:
    """Write the character that an escape stands for; behind the escape, and behind the character."""
    if at + 2 > end:
        return UNSURE, to
    if byte_at(at + 1) != ord("u"):
        meant = _meant(byte_at(at + 1))
        put_byte(to, meant)
        return (at + 2 if meant >= 0 else UNSURE), to + 1
    code = unit_at(at, end)
    at += 6
    if 0xD800 <= code < 0xDC00:
        low = unit_at(at, end)
        if not 0xDC00 <= low < 0xE000:
            return UNSURE, to
        code = 0x10000 + (code - 0xD800 << 10) + low - 0xDC00
        at += 6
    elif code <= 0 or 0xDC00 <= code < 0xE000:
        return UNSURE, to
    return at, put_character(to, code)


@piece
def read_string(at: int, end: int, limit: int, to: int, full: int) -> tuple[int, int, int]:
    """Write what a string says that begins at `at`, no further than `full`.

    Given back are the place behind its closing quote, the one behind what was written, and how many bytes of it only
    continue a character.
    """
    continuing = 0
    while True:
        while at + 16 <= limit and at < end:
            if to + ROOM > full:
                return FULL, to, 0
            marks = copied(to, at)
            step = lowest_bit(marks) if marks else 16
            at, to = at + step, to + step
            if marks:
                break
        if at >= end:
            return UNSURE, to, 0
        if to + ROOM > full:
            return FULL, to, 0
        byte = byte_at(at)
        if byte == QUOTE:
            return at + 1, to, continuing
        before = to
        if byte == BACKSLASH:
            at, to = _put_escaped(at, end, to)
            continuing += to - before - 1
        elif byte > 127:
            after = after_character(at, end)
            while at < after:
                put_byte(to, byte_at(at))
                at, to = at + 1, to + 1
            continuing += to - before - 1
            at = after
        elif byte >= 32:  # near the limit, where sixteen at once would be too many
            put_byte(to, byte)
            at, to = at + 1, to + 1
        else:
            return UNSURE, to, 0
        if at < 0:
            return UNSURE, to, 0
