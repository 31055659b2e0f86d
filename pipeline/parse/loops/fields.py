"""Values of the contract's fields, in compiled loops: read, held against the rules, written into their columns.

`rule` and `column` are the addresses of a field's rows in the tables of `layout.py`.
"""

from __future__ import annotations

import string
from typing import Any

import numpy as np

from pipeline.compiling import piece
from pipeline.parse.loops import layout
from pipeline.parse.loops.layout import BESIDE, BYTES, CAPACITY, UNSURE, VALID, VALUES
from pipeline.parse.loops.memory import (
    byte_at,
    double_at,
    int_at,
    long_at,
    put_byte,
    put_double,
    put_int,
    put_long,
    signed,
)
from pipeline.parse.loops.numbers import decimal, double, integer
from pipeline.parse.loops.skip import ALSE, NULL, TRUE
from pipeline.parse.loops.texts import QUOTE, read_string
from pipeline.parse.loops.times import date, timestamp

_ALPHABET = np.full(256, -1, np.int64)
_ALPHABET[[*(string.ascii_letters[26:] + string.ascii_letters[:26] + string.digits + "+/").encode()]] = range(64)
_PADDING = ord("=")


@piece
def word(row: int, number: int) -> int:
    """One of the numbers in a table's row."""
    return long_at(row + 8 * number)


@piece
def put_value(at: int, end: int, limit: int, row: int, rule: int, column: int) -> int:
    """Write the value that begins here, if it is surely one by the rules; the place behind it, or why not."""
    first, kind, values = byte_at(at), word(rule, layout.KIND), word(column, VALUES)
    if first == ord("n"):
        if at + 4 > end or int_at(at) != NULL or not word(rule, layout.NULLABLE):
            return UNSURE
        put_null(row, kind, column)
        return at + 4
    if word(rule, layout.NEVER):
        return UNSURE
    if word(rule, layout.ASIDE):
        if first != QUOTE:
            return UNSURE
        after = _put_text(at, end, limit, row, word(rule, layout.ASIDE), word(column, BESIDE))
        if after < 0:
            return after
    if kind == layout.TEXT or kind == layout.BASE64:
        return _put_text(at, end, limit, row, rule, column) if first == QUOTE else UNSURE
    if kind == layout.INT64 or kind == layout.INT32:
        number, at = integer(at, end)
        if number < word(rule, layout.LOWEST) or number > word(rule, layout.HIGHEST) or not _listed(number, rule):
            return UNSURE
        if kind == layout.INT64:
            put_long(values + 8 * row, number)
        else:
            put_int(values + 4 * row, number)
        return at
    if kind == layout.DECIMAL:
        return _put_decimal(at, end, row, rule, values)
    if kind == layout.TIMESTAMP or kind == layout.DATE:
        return _put_time(at, end, row, rule, values)
    if kind == layout.DOUBLE:
        magnitude, at = double(at, end)
        if not (double_at(rule + 8 * layout.LEAST) <= magnitude <= double_at(rule + 8 * layout.MOST)):
            return UNSURE
        if not (double_at(rule + 8 * layout.ABOVE) < magnitude < double_at(rule + 8 * layout.BELOW)):
            return UNSURE
        put_double(values + 8 * row, magnitude)
        return at
    if at + 4 <= end and int_at(at) == TRUE:
        put_bit(values, row, 1)
        return at + 4
    if first == ord("f") and at + 5 <= end and int_at(at + 1) == ALSE:
        put_bit(values, row, 0)
        return at + 5
    return UNSURE


@piece
def put_bit(bits: int, row: int, bit: int) -> None:
    place = bits + (row >> 3)
    put_byte(place, byte_at(place) & ~(1 << (row & 7)) | bit << (row & 7))


@piece
def put_no_text(row: int, column: int) -> None:
    offset = word(column, VALUES) + 4 * row
    put_int(offset + 4, int_at(offset))


@piece
def put_null(row: int, kind: int, column: int) -> None:
    """Its value is 0: what memory held before is nobody's business."""
    if word(column, BESIDE):
        put_no_text(row, word(column, BESIDE))
    put_bit(word(column, VALID), row, 0)
    values = word(column, VALUES)
    if kind == layout.TEXT or kind == layout.BASE64:
        put_no_text(row, column)
    elif kind == layout.INT32 or kind == layout.DATE:
        put_int(values + 4 * row, 0)
    elif kind == layout.BOOLEAN:
        put_bit(values, row, 0)
    elif kind == layout.DECIMAL:
        put_long(values + 16 * row, 0)
        put_long(values + 16 * row + 8, 0)
    else:
        put_long(values + 8 * row, 0)


@piece
def _listed(number: int, rule: int) -> bool:
    """Is it a multiple of the step, and among the numbers that are allowed?"""
    step, low, high = word(rule, layout.STEP), 0, word(rule, layout.AMONG_COUNT)
    if step != 1 and number % step != 0:
        return False
    if high < 0:
        return True
    numbers = word(rule, layout.AMONG)
    while low < high:
        middle = (low + high) >> 1
        if word(numbers, middle) < number:
            low = middle + 1
        else:
            high = middle
    return low < word(rule, layout.AMONG_COUNT) and word(numbers, low) == number


@piece
def _put_decimal(at: int, end: int, row: int, rule: int, values: int) -> int:
    quoted = byte_at(at) == QUOTE
    if not (word(rule, layout.AS_TEXT) if quoted else word(rule, layout.AS_NUMBER)):
        return UNSURE
    upper, lower, at = decimal(at + quoted, end, word(rule, layout.SCALE))
    if at < 0 or (quoted and (at >= end or byte_at(at) != QUOTE)):
        return UNSURE
    lowest, highest = word(rule, layout.LOWEST_HALF), word(rule, layout.HIGHEST_HALF)
    if upper < lowest or (upper == lowest and lower < np.uint64(word(rule, layout.LOWEST))):
        return UNSURE
    if upper > highest or (upper == highest and lower > np.uint64(word(rule, layout.HIGHEST))):
        return UNSURE
    number = signed(lower)
    ruled = word(rule, layout.STEP) != 1 or word(rule, layout.AMONG_COUNT) >= 0
    if ruled and (upper != number >> 63 or not _listed(number, rule)):  # listed are only numbers of 64 bits
        return UNSURE
    put_long(values + 16 * row, number)
    put_long(values + 16 * row + 8, upper)
    return at + quoted


@piece
def _put_time(at: int, end: int, row: int, rule: int, values: int) -> int:
    if byte_at(at) != QUOTE:
        return UNSURE
    if word(rule, layout.KIND) == layout.TIMESTAMP:
        number, after = timestamp(at + 1, end)
    else:
        number, after = date(at + 1, end)
    if after < 0 or after >= end or byte_at(after) != QUOTE:
        return UNSURE
    if not word(rule, layout.SHORTEST) <= after - at - 1 <= word(rule, layout.LONGEST):
        return UNSURE
    if word(rule, layout.KIND) == layout.TIMESTAMP:
        put_long(values + 8 * row, number)
    else:
        put_int(values + 4 * row, number)
    return after + 1


@piece
def _put_text(at: int, end: int, limit: int, row: int, rule: int, column: int) -> int:
    offset, start = word(column, VALUES) + 4 * row, word(column, BYTES)
    first = start + int_at(offset)
    at, to, continuing = read_string(at + 1, end, limit, first, start + word(column, CAPACITY))
    if at < 0:
        return at
    if not word(rule, layout.SHORTEST) <= to - first - continuing <= word(rule, layout.LONGEST):
        return UNSURE
    if word(rule, layout.KIND) == layout.BASE64:
        to = _decoded(first, to)
        if to < 0:
            return UNSURE
    put_int(offset + 4, to - start)
    return at


@piece
def _six_bits(at: int) -> Any:
    return _ALPHABET[byte_at(at)]


@piece
def _decoded(first: int, end: int) -> int:
    """Put the bytes in the place of their base64, if it is padded and canonical; behind the last one."""
    if (end - first) % 4:
        return UNSURE
    to = first
    for at in range(first, end, 4):
        padding = 0
        if at + 4 == end and byte_at(at + 3) == _PADDING:
            padding = 1 + (byte_at(at + 2) == _PADDING)
        third = _six_bits(at + 2) if padding < 2 else 0
        fourth = _six_bits(at + 3) if padding < 1 else 0
        together = _six_bits(at) << 18 | _six_bits(at + 1) << 12 | third << 6 | fourth
        if together < 0 or together & ((1 << 8 * padding) - 1):
            return UNSURE
        put_byte(to, together >> 16)
        put_byte(to + 1, together >> 8)
        put_byte(to + 2, together)
        to += 3 - padding
    return to
