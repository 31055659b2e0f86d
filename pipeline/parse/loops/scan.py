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
    mixed = size
    for place in range(at, at + size):
        mixed = (mixed * 31 + byte_at(place)) & 0xFFFFFFFF
    return mixed ^ mixed >> 15


@piece
def _list_names(fields: int, rules: int, names: Any) -> None:
    mask = len(names) - 1
    names[:] = -1
    for field in range(fields):
        rule = rules + field * _RULE
        place = _hash(word(rule, layout.NAME), word(rule, layout.NAME_SIZE) - 1) & mask
        while names[place] >= 0:
            place = (place + 1) & mask
        names[place] = field


@piece
def _field_named(at: int, size: int, rules: int, names: Any) -> Any:
    """The field of this name, or -1. `names` are fields by the hash of their names, or by the next free place."""
    mask = len(names) - 1
    place = _hash(at, size) & mask
    while names[place] >= 0:
        rule = rules + names[place] * _RULE
        if word(rule, layout.NAME_SIZE) == size + 1 and _are_alike(word(rule, layout.NAME), at, size):
            return names[place]
        place = (place + 1) & mask
    return -1


@piece
def _field_at(at: int, end: int, limit: int, rules: int, names: Any, spare: Any) -> tuple[int, int]:
    """The field whose name begins here, or -1 for one that the contract does not know; and the place behind it."""
    stop = after_plain(at, end, limit)
    if stop < end and byte_at(stop) == QUOTE:
        return _field_named(at, stop - at, rules, names), stop + 1
    first = signed(spare.ctypes.data)
    after, to, _ = read_string(at, end, limit, first, first + len(spare))
    if after == FULL:  # longer than any name
        return -1, after_string(at, end, limit)
    if after < 0:
        return -1, UNSURE
    return _field_named(first, to - first, rules, names), after


@piece
def _fill(stamp: int, row: int, fields: int, rules: int, columns: int) -> int:
    """Nulls for the fields that are not there."""
    for field in range(fields):
        rule, column = rules + field * _RULE, columns + field * _COLUMN
        if word(column, SEEN) != stamp:
            if word(rule, layout.REQUIRED):
                return UNSURE
            put_null(row, word(rule, layout.KIND), column)
    return 0


@piece
def _after_brace(at: int, end: int) -> int:
    """Where the first member or the closing brace is to be."""
    at = after_space(at, end)
    return after_space(at + 1, end) if at < end and byte_at(at) == _OPENED else UNSURE


@piece
def _read(
    at: int,
    end: int,
    limit: int,
    row: int,
    fields: int,
    rules: int,
    columns: int,
    names: Any,
    spare: Any,
    progress: Any,
) -> int:
    """Write a message's row; `UNSURE` or `FULL` if it is not to be."""
    progress[layout.STAMP] += 1
    stamp, found, last = progress[layout.STAMP], 0, columns + fields * _COLUMN
    at = _after_brace(at, end)
    if 0 <= at < end and byte_at(at) == _CLOSED:
        return _fill(stamp, row, fields, rules, columns) if after_space(at + 1, end) == end else UNSURE
    while True:
        if at < 0 or at >= end or byte_at(at) != QUOTE:
            return UNSURE
        field = word(last, NEXT)
        if _is_named(at + 1, end, limit, rules + field * _RULE):
            at += 1 + word(rules + field * _RULE, layout.NAME_SIZE)
        else:
            field, at = _field_at(at + 1, end, limit, rules, names, spare)
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
                progress[layout.FULL_FIELD] = field
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
    return 0 if found == fields else _fill(stamp, row, fields, rules, columns)


_Longs = numba.types.Array(numba.int64, 1, "C")
_Table = numba.types.Array(numba.int64, 2, "C")
_Spare = numba.types.Array(numba.uint8, 1, "C")
_int = numba.int64


def _scan(sources: str) -> Any:
    """What is kept of a compiled function is known by the function's own file, and by what it encloses: here the text
    of all files that are compiled with it."""

    @compiled(numba.boolean(_int, _int, _int, _int, _int, _int, _int, _Table, _Table, _Longs, _Spare, _Longs, _Longs))
    def scan(
        data: int,
        size: int,
        offsets: int,
        valid: int,
        bit: int,
        count: int,
        most: int,
        rule_table: Any,
        column_table: Any,
        names: Any,
        spare: Any,
        positions: Any,
        progress: Any,
    ) -> bool:
        """Go on until all messages are looked at, or a column of texts is full, which is answered with False.

        `data`, `offsets`, `valid` are addresses; from `bit` on, the bits of `valid` (if it is not 0) are 0 where there
        is no message. Longer ones than `most` are left out.
        """
        sources  # noqa: B018
        rules, columns = signed(rule_table.ctypes.data), signed(column_table.ctypes.data)
        row, fields, limit = progress[layout.ROW], len(rule_table) - 1, data + size
        _list_names(fields, rules, names)
        for message in range(progress[layout.MESSAGE], count):
            at, end = data + int_at(offsets + 4 * message), data + int_at(offsets + 4 * message + 4)
            there = valid == 0 or byte_at(valid + (bit + message >> 3)) >> (bit + message & 7) & 1
            if not there or at == end or end - at > most:
                continue
            done = _read(at, end, limit, row, fields, rules, columns, names, spare, progress)
            if done == 0:
                positions[row] = message
                row += 1
                continue
            for field in range(fields):
                bits = word(columns + field * _COLUMN, VALID)
                if bits:
                    put_bit(bits, row, 1)
            if done == FULL:
                progress[layout.MESSAGE], progress[layout.ROW] = message, row
                return False
        progress[layout.MESSAGE], progress[layout.ROW] = count, row
        return True

    return scan


def _sources() -> str:
    texts = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(text.read_bytes() for text in texts)).hexdigest()


scan = _scan(_sources())
