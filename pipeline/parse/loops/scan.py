"""The scan: messages in, rows of columns out, in one pass over the bytes. To import this module compiles it.

A message is read from its first brace to its last. After a field most likely comes the one that came after it the last
time, so its name is compared before it is looked for. Where anything is not as it surely must be, the message is left
out, and what was written of it is written over by the next.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from pipeline.compiling import compiled, numba, piece
from pipeline.parse.loops import layout
from pipeline.parse.loops.fields import put_bit, put_null, put_value, word
from pipeline.parse.loops.layout import COLUMNS, FULL, NEXT, RULES, SEEN, UNSURE, VALID
from pipeline.parse.loops.memory import byte_at, differing, int_at, put_long, signed
from pipeline.parse.loops.skip import after_colon, after_value
from pipeline.parse.loops.texts import QUOTE, after_plain, after_space, after_string, read_string

_RULE, _COLUMN = 8 * RULES, 8 * COLUMNS
_OPENED, _CLOSED, _COMMA = ord("{"), ord("}"), ord(",")


@piece
def _are_alike(one: int, other: int, size: int) -> bool:
    place = 0
    while place < size and byte_at(one + place) == byte_at(other + place):
        place += 1
    return place == size


@piece
def _is_named(at: int, end: int, limit: int, rule: int) -> bool:
    """Do this field's name and a quote stand here?"""
    name, size = word(rule, layout.NAME), word(rule, layout.NAME_SIZE)
    if at + size > end:
        return False
    if at + size + 15 <= limit:  # a name is followed by room for as much
        while size > 0:
            others = differing(at, name)
            if size < 16:
                others &= (1 << size) - 1
            if others:
                return False
            at, name, size = at + 16, name + 16, size - 16
        return True
    return _are_alike(at, name, size)


@piece
def _hash(at: int, size: int) -> int:
    """Of a name's length and of four of its bytes: enough to tell fields apart, and soon done."""
    if size == 0:
        return 0
    mixed = (size * 31 + byte_at(at)) * 31 + byte_at(at + size - 1)
    mixed = (mixed * 31 + byte_at(at + (size >> 1))) * 31 + byte_at(at + (size >> 2))
    return mixed ^ mixed >> 7


@piece
def _list_names(state: int) -> None:
    """Fields by the hash of their names, or by the next free place; -1 where there is none."""
    names, mask, rule = word(state, layout.NAMES), word(state, layout.NAMES_MASK), word(state, layout.RULE_TABLE)
    for place in range(mask + 1):
        put_long(names + 8 * place, -1)
    for field in range(word(state, layout.FIELDS)):
        place = _hash(word(rule, layout.NAME), word(rule, layout.NAME_SIZE) - 1) & mask
        while word(names, place) >= 0:
            place = (place + 1) & mask
        put_long(names + 8 * place, field)
        rule += _RULE


@piece
def _field_named(at: int, size: int, state: int) -> int:
    """The field of this name, or -1."""
    names, mask, rules = word(state, layout.NAMES), word(state, layout.NAMES_MASK), word(state, layout.RULE_TABLE)
    place = _hash(at, size) & mask
    while True:
        field = word(names, place)
        rule = rules + field * _RULE
        if field < 0:
            return -1
        if word(rule, layout.NAME_SIZE) == size + 1 and _are_alike(word(rule, layout.NAME), at, size):
            return field
        place = (place + 1) & mask


@piece
def _field_at(at: int, end: int, limit: int, state: int) -> tuple[int, int]:
    """The field whose name begins here, or -1 for one that the contract does not know; and the place behind it."""
    stop = after_plain(at, end, limit)
    if stop < end and byte_at(stop) == QUOTE:
        return _field_named(at, stop - at, state), stop + 1
    spare = word(state, layout.SPARE)
    after, to, _ = read_string(at, end, limit, spare, spare + word(state, layout.SPARE_SIZE))
    if after == FULL:  # longer than any name
        return -1, after_string(at, end, limit)
    if after < 0:
        return -1, UNSURE
    return _field_named(spare, to - spare, state), after


@piece
def _fill(stamp: int, row: int, state: int) -> int:
    """Nulls for the fields that are not there."""
    rule, column = word(state, layout.RULE_TABLE), word(state, layout.COLUMN_TABLE)
    for _ in range(word(state, layout.FIELDS)):
        if word(column, SEEN) != stamp:
            if word(rule, layout.REQUIRED):
                return UNSURE
            put_null(row, word(rule, layout.KIND), column)
        rule, column = rule + _RULE, column + _COLUMN
    return 0


@piece
def _after_brace(at: int, end: int) -> int:
    """Where the first member or the closing brace is to be."""
    at = after_space(at, end)
    return after_space(at + 1, end) if at < end and byte_at(at) == _OPENED else UNSURE


@piece
def _read(at: int, end: int, limit: int, row: int, stamp: int, state: int) -> int:
    """Write a message's row; `UNSURE` or `FULL` if it is not to be."""
    rules, columns, fields = (
        word(state, layout.RULE_TABLE),
        word(state, layout.COLUMN_TABLE),
        word(state, layout.FIELDS),
    )
    last, found = columns + fields * _COLUMN, 0
    at = _after_brace(at, end)
    if 0 <= at < end and byte_at(at) == _CLOSED:
        return _fill(stamp, row, state) if after_space(at + 1, end) == end else UNSURE
    while True:
        if at < 0 or at >= end or byte_at(at) != QUOTE:
            return UNSURE
        field = word(last, NEXT)
        if _is_named(at + 1, end, limit, rules + field * _RULE):
            at += 1 + word(rules + field * _RULE, layout.NAME_SIZE)
        else:
            field, at = _field_at(at + 1, end, limit, state)
            if at < 0:
                return UNSURE
            if field >= 0:
                put_long(last + 8 * NEXT, field)
        at = after_colon(at, end)
        if at < 0 or at >= end:
            return UNSURE
        if field >= 0:
            last = columns + field * _COLUMN
            if word(last, SEEN) == stamp:
                return UNSURE
            put_long(last + 8 * SEEN, stamp)
            found += 1
            at = put_value(at, end, limit, row, rules + field * _RULE, last)
            if at == FULL:
                put_long(state + 8 * layout.FULL_FIELD, field)
        else:
            at = after_value(at, end, limit)
        if at < 0:
            return at
        at = after_space(at, end)
        if at >= end:
            return UNSURE
        byte = byte_at(at)
        at = after_space(at + 1, end)
        if byte == _CLOSED:
            break
        if byte != _COMMA:
            return UNSURE
    if at != end:
        return UNSURE
    return 0 if found == fields else _fill(stamp, row, state)


@piece
def _put_back(row: int, state: int) -> None:
    """Of a message that is left out no null is left over."""
    column = word(state, layout.COLUMN_TABLE)
    for _ in range(word(state, layout.FIELDS)):
        if word(column, VALID):
            put_bit(word(column, VALID), row, 1)
        column += _COLUMN


def _scan(sources: str) -> Any:
    """What is kept of a compiled function is known by the function's own file, and by what it encloses: here all that
    is compiled with it."""

    @compiled(numba.boolean(numba.types.Array(numba.int64, 1, "C")))
    def scan(words: Any) -> bool:
        """Go on until all messages are looked at, or a column of texts is full, which is answered with False."""
        sources  # noqa: B018
        state = signed(words.ctypes.data)
        data, offsets, there = words[layout.DATA], words[layout.OFFSETS], words[layout.THERE]
        count, most, limit = words[layout.COUNT], words[layout.LONGEST_MESSAGE], data + words[layout.SIZE]
        row, stamp = words[layout.ROW], words[layout.STAMP]
        _list_names(state)
        for message in range(words[layout.MESSAGE], count):
            at, end = data + int_at(offsets + 4 * message), data + int_at(offsets + 4 * message + 4)
            bit = words[layout.FIRST_BIT] + message
            is_there = there == 0 or byte_at(there + (bit >> 3)) >> (bit & 7) & 1
            if not is_there or at == end or end - at > most:
                continue
            stamp += 1
            done = _read(at, end, limit, row, stamp, state)
            if done == 0:
                put_long(words[layout.POSITIONS] + 8 * row, message)
                row += 1
                continue
            _put_back(row, state)
            if done == FULL:
                words[layout.MESSAGE], words[layout.ROW], words[layout.STAMP] = message, row, stamp
                return False
        words[layout.ROW] = row
        return True

    return scan


def _sources() -> str:
    """Of the files' texts; and of the tables' words as this process has them, which may be older."""
    texts = [text.read_bytes() for text in sorted(Path(__file__).parent.glob("*.py"))]
    words = {name: number for name, number in vars(layout).items() if name.isupper()}
    return hashlib.sha256(b"".join([*texts, repr(words).encode()])).hexdigest()


scan = _scan(_sources())
