"""The fast path: most messages, scanned once and written straight into columns. It says yes or nothing, never no.

Compiled loops (`loops/`) read the bytes of all messages by the contract's names, kinds and rules, which they get as
tables, so that a contract costs no compilation. Patterns and lists of texts are looked at when the column is there;
where it is not one of texts, they are kept aside until then. What is not surely a sale is left to the strict path.

| | taken here | left to the strict path |
|---|---|---|
| message | an object, white space round it; fields in any order | none, empty, too large, all that is not valid |
| names | UTF-8 and escapes | lone surrogates, NUL |
| ignored values | any JSON, 64 levels deep with the message | |
| null, missing | where the contract allows it | |
| string | UTF-8 and escapes; lengths, `pattern`, `enum`, `const` | |
| binary | base64; lengths, `pattern`, `enum`, `const` | |
| int32, int64 | all but -2^63; bounds, `multipleOf`, `enum`, `const` | fields with steps of 2^63 or more |
| decimal, uint64 | below 2^64, 19 decimals and zeros behind; bounds | exponents, escapes; fields with more decimals |
| … with `multipleOf`, `enum`, `const` | 64 bits in the smallest unit | fields with steps of 2^63 or more |
| double | 19 digits; bounds | subnormal, hardest to round; fields with `multipleOf`, `enum`, `const` |
| boolean | true, false | |
| timestamp, date | as `times.py` has them; lengths, `pattern`, `enum`, `const` | escapes |

A field given twice and whatever breaks a rule are the strict path's to tell of. What is written takes the memory
of the columns (and of texts kept aside), and eight bytes a message.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from pipeline.config.contracts import TopicContract
from pipeline.parse.columns import Column
from pipeline.parse.kinds import Integers, Kind, Mask
from pipeline.parse.loops import layout

_PIECE = 16  # names are compared so many bytes at once
_PLACE = slice(layout.VALUES, layout.CAPACITY + 1)

_Aside = dict[int, tuple[int, Column]]  # by field: the texts that are kept aside, and their row in the scan's table


class FastPath:
    def __init__(self, contract: TopicContract, kinds: list[Kind], max_message_bytes: int) -> None:
        self._schema = contract.schema
        self._kinds = kinds
        self._most = min(max_message_bytes, 1 << 31)
        self._rules = np.zeros((len(kinds) + 1, layout.RULES), np.int64)
        self._rules[-1, [layout.KIND, layout.LONGEST]] = layout.TEXT, 1 << 62
        written = [f'{kind.field.name}"'.encode() for kind in kinds]
        size = max(map(len, written)) + _PIECE
        self._names = np.frombuffer(b"".join(name.ljust(size, b"\0") for name in written), np.uint8)
        for i, (rule, kind, name) in enumerate(zip(self._rules, kinds, written, strict=False)):
            words = kind.rule | {layout.NULLABLE: kind.field.nullable, layout.REQUIRED: kind.field.required}
            words |= {layout.NAME: self._names.ctypes.data + i * size, layout.NAME_SIZE: len(name)}
            words |= {layout.AMONG_COUNT: -1 if kind.among is None else len(kind.among)}
            words |= {layout.AMONG: 0 if kind.among is None else kind.among.ctypes.data}
            words |= {layout.ASIDE: _row(self._rules, len(kinds)) if kind.needs_text else 0}
            rule[list(words)] = list(words.values())
        self._longest = size

    def sales(self, values: pa.Array) -> tuple[pa.Table, Integers]:
        """Those messages (binary, possibly a slice) that are surely sales, as columns, and their positions."""
        columns, aside, positions = self._scanned(values)
        rows = len(positions)
        arrays = [column.array(rows, field.type) for column, field in zip(columns, self._schema, strict=True)]
        sure: Mask | None = None
        for i, (kind, array) in enumerate(zip(self._kinds, arrays, strict=True)):
            good = kind.sure(array, aside[i][1].array(rows, pa.string()) if i in aside else array)
            if good is not None and not good.all():
                sure = good if sure is None else sure & good
        table = pa.Table.from_arrays(arrays, schema=self._schema)
        return (table, positions) if sure is None else (table.filter(pa.array(sure)), positions[sure])

    def _scanned(self, values: pa.Array) -> tuple[list[Column], _Aside, Integers]:
        """All columns, texts that were kept aside by their fields, and the messages that have a row there."""
        from pipeline.parse.loops.scan import scan  # who only checks a contract needs no compiler

        valid, offsets, data = values.buffers()
        count, size = len(values), 0 if data is None else data.size
        if not count or not size:
            return *self._columns(0, 0), np.empty(0, np.int64)
        first, last = np.frombuffer(offsets, np.int32)[[values.offset, values.offset + count]]
        columns, aside = self._columns(count, int(last - first))
        table = self._table(columns, aside)
        names = np.empty(1 << (4 * len(columns)).bit_length(), np.int64)
        spare = np.empty(self._longest + layout.ROOM, np.uint8)
        positions, state = np.empty(count, np.int64), np.zeros(layout.STATE, np.int64)
        state[[layout.DATA, layout.SIZE, layout.COUNT, layout.LONGEST_MESSAGE]] = data.address, size, count, self._most
        state[[layout.OFFSETS, layout.FIRST_BIT]] = offsets.address + 4 * values.offset, values.offset
        state[layout.THERE] = 0 if valid is None else valid.address
        state[[layout.FIELDS, layout.NAMES_MASK, layout.SPARE_SIZE]] = len(columns), len(names) - 1, len(spare)
        for word, array in (
            (layout.RULE_TABLE, self._rules),
            (layout.COLUMN_TABLE, table),
            (layout.NAMES, names),
            (layout.SPARE, spare),
            (layout.POSITIONS, positions),
        ):
            state[word] = array.ctypes.data
        while not scan(state):
            full = int(state[layout.FULL_FIELD])
            for row, column in [(full, columns[full]), *([aside[full]] if full in aside else [])]:
                column.grow(int(state[layout.ROW]), state[layout.MESSAGE] / count)
                table[row, _PLACE] = column.place()
        positions.resize(int(state[layout.ROW]), refcheck=False)
        return columns, aside, positions

    def _columns(self, count: int, size: int) -> tuple[list[Column], _Aside]:
        columns = [
            Column(kind.rule[layout.KIND], kind.field.nullable or not kind.field.required, count, size)
            for kind in self._kinds
        ]
        needed = [i for i, kind in enumerate(self._kinds) if kind.needs_text]
        rows = range(len(columns) + 1, len(columns) + 1 + len(needed))
        return columns, {i: (row, Column(layout.TEXT, False, count, size)) for i, row in zip(needed, rows, strict=True)}

    def _table(self, columns: list[Column], aside: _Aside) -> Integers:
        """Where the scan writes. At first a field is taken to follow the one before it in the contract."""
        table = np.zeros((len(columns) + 1 + len(aside), layout.COLUMNS), np.int64)
        table[: len(columns), layout.NEXT] = [*range(1, len(columns)), 0]
        table[: len(columns), _PLACE] = [column.place() for column in columns]
        for field, (row, column) in aside.items():
            table[row, _PLACE] = column.place()
            table[field, layout.BESIDE] = _row(table, row)
        return table


def _row(table: Integers, row: int) -> int:
    """A row's address."""
    return table.ctypes.data + row * table.strides[0]
