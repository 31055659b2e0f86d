"""The front stage's memory: master rows, and keys proved absent, with how often each was wanted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.joins.parts.budget import most_that_fit
from pipeline.joins.parts.keycodes import Codes, picked
from pipeline.joins.parts.keyindex import KeyIndex, Slots

_RECORDER_BYTES = 4 + 4  # a slot's frequency and the moment it expires
_ROW_NUMBER_BYTES = 4
_TICK = 0.1  # seconds; moments are counted in ticks since the cache was made
_GONE = np.int32(0)

YOUNG = 8  # one part of so many of the cached rows may wait to come in
COPIED = 3  # the widest column is taken to be at most one part of so many of a row: it is copied while rows change

NO_ROW = -1


@dataclass(frozen=True)
class Newcomers:
    """Rows, or absences, that were wanted `frequency` times and may come in."""

    codes: Codes
    rows: pa.Table | None  # None: keys proved absent
    frequency: npt.NDArray[np.float32]
    expires: npt.NDArray[np.float64]  # the moment, in seconds since the cache was made

    @property
    def nbytes(self) -> int:
        rows = 0 if self.rows is None else self.rows.nbytes
        return rows + self.codes.nbytes + self.frequency.nbytes + self.expires.nbytes


class RowCache:
    """
    Idea
        A hash index from key to slot; a slot knows its row's number in one Arrow table, how often it was wanted (the
        frequency recorder), and when it expires. Rows come and go in bulk: the most wanted of those in the cache and
        those that wait to come in stay.

    Memory
        bytes_for(C): C slots of index, recorder and row number, C rows, the newcomers' share, and one column's copy.

    Example
        >>> rows = pa.table({"key": [7, 9], "surrogate_key": [70, 90]})
        >>> cache = RowCache(capacity=1, row_bytes=100_000, words=1, schema=rows.schema)
        >>> codes = np.array([[7], [9]], np.uint64)
        >>> wanted, expires = np.array([1, 5], np.float32), np.full(2, 60.0)
        >>> cache.consider(Newcomers(codes, rows, wanted, expires))
        >>> cache.merge(now=0.0), cache.find(codes, now=1.0).tolist(), cache.find(codes, now=61.0).tolist()
        (0, [-1, 0], [-1, -1])
    """

    def __init__(self, capacity: int, row_bytes: float, words: int, schema: pa.Schema) -> None:
        self.capacity = capacity
        self._most_row_bytes = capacity * row_bytes
        self._index = KeyIndex(capacity, words)
        self.rows: pa.Table = schema.empty_table()
        self._row = np.full(capacity, NO_ROW, np.int32)
        self._expires = np.full(capacity, _GONE, np.int32)
        self._frequency = np.zeros(capacity, np.float32)
        self._newcomers: list[Newcomers] = []
        self._newcomer_bytes = 0

    @staticmethod
    def bytes_for(capacity: int, row_bytes: float, words: int) -> int:
        young = (row_bytes + 8 * words + 12) / YOUNG
        per_row = row_bytes * (1 + 1 / COPIED) + young + _RECORDER_BYTES + _ROW_NUMBER_BYTES + 24
        return KeyIndex.bytes_for(capacity, words) + int(capacity * per_row) + 2_048

    @classmethod
    def capacity_for(cls, memory: float, row_bytes: float, words: int) -> int:
        """The most rows that fit into so many bytes."""
        return most_that_fit(
            memory, lambda number: cls.bytes_for(number, row_bytes, words), max(0, int(memory / row_bytes))
        )

    def __len__(self) -> int:
        return len(self._index)

    @property
    def is_full(self) -> bool:
        enough = self._most_row_bytes * (1 - 1 / YOUNG)
        return len(self) == self.capacity or bool(self.rows.nbytes >= enough)

    @property
    def newcomers_full(self) -> bool:
        return self._newcomer_bytes >= self._most_row_bytes / YOUNG

    @property
    def has_newcomers(self) -> bool:
        return bool(self._newcomers)

    @property
    def nbytes(self) -> int:
        own = self._row.nbytes + self._expires.nbytes + self._frequency.nbytes
        return self._index.nbytes + int(self.rows.nbytes) + own

    @property
    def newcomer_bytes(self) -> int:
        return self._newcomer_bytes

    def find(self, codes: Codes, now: float) -> Slots:
        """The slot of each key that is here and has not expired, else -1."""
        slots = self._index.find(codes)
        slots[self._expires[slots] <= now / _TICK] = -1
        return slots

    def use(self, slots: Slots) -> npt.NDArray[np.int64]:
        """Note that these were wanted, once each time they are named; the number of their row, or NO_ROW."""
        self._frequency += np.bincount(slots, minlength=self.capacity).astype(np.float32)
        return self._row[slots].astype(np.int64)

    def age(self, factor: float) -> None:
        self._frequency *= np.float32(factor)

    def consider(self, newcomers: Newcomers) -> None:
        """Let these wait to come in."""
        self._newcomers.append(newcomers)
        self._newcomer_bytes += newcomers.nbytes

    def merge(self, now: float) -> int:
        """Let newcomers in and the least wanted out; how many of those that were in had to leave for others."""
        newcomers, self._newcomers, self._newcomer_bytes = self._newcomers, [], 0
        self._drop(self._alive(self._expires <= now / _TICK))
        if not newcomers:
            return 0
        coming = _together(newcomers, self.rows.schema, self._index.codes.shape[1])
        known = self._index.find(coming.codes)
        coming.frequency[known >= 0] += self._frequency[known[known >= 0]]
        self._drop(known[known >= 0])
        enter, leave = self._contest(coming)
        self._drop(leave)
        slots = self._index.add(picked(coming.codes, enter))
        self._frequency[slots] = coming.frequency[enter]
        self._expires[slots] = (coming.expires[enter] / _TICK).astype(np.int32)
        with_row = coming.row[enter] != NO_ROW
        self._change_rows(coming.rows.take(pa.array(coming.row[enter[with_row]])), slots[with_row])
        return len(leave)

    def _contest(self, coming: _Coming) -> tuple[npt.NDArray[np.int64], Slots]:
        """Who of the newcomers may enter, and which slots have to leave: the most wanted stay, as far as there is room.

        Among equals those inside stay.
        """
        inside = self._index.slots
        width = np.concatenate([_widths(self.rows, self._row[inside]), _widths(coming.rows, coming.row)])
        order = np.argsort(-np.concatenate([self._frequency[inside], coming.frequency]), kind="stable")
        fits = (np.cumsum(width[order]) <= self._most_row_bytes) & (np.arange(len(order)) < self.capacity)
        stays = np.zeros(len(order), np.bool_)
        stays[order[fits]] = True
        return np.flatnonzero(stays[len(inside) :]), inside[~stays[: len(inside)]]

    def _alive(self, chosen: npt.NDArray[np.bool_]) -> Slots:
        slots = self._index.slots
        return slots[chosen[slots]]

    def _drop(self, slots: Slots) -> None:
        if len(slots):
            self._index.remove(slots)
            self._expires[slots], self._row[slots], self._frequency[slots] = _GONE, NO_ROW, 0

    def _change_rows(self, rows: pa.Table, slots: Slots) -> None:
        """Close up the rows that are left and add these, column by column: two copies of a column, never of all."""
        with_row = np.flatnonzero(self._row != NO_ROW)
        stay = self._row[with_row]
        self._row[with_row] = np.arange(len(stay), dtype=np.int32)
        self._row[slots] = len(stay) + np.arange(len(slots), dtype=np.int32)
        schema, columns = self.rows.schema, {name: self.rows[name] for name in self.rows.column_names}
        self.rows = schema.empty_table()
        taken = pa.array(stay)
        for name in schema.names:
            old = columns.pop(name).take(taken)
            columns[f"new {name}"] = pa.chunked_array([*old.chunks, *rows[name].chunks], old.type).combine_chunks()
        self.rows = pa.Table.from_arrays(list(columns.values()), schema=schema)

    def clear(self) -> None:
        """Give back the rows."""
        self._drop(self._index.slots)
        self._newcomers, self._newcomer_bytes, self.rows = [], 0, self.rows.schema.empty_table()

    def check(self) -> None:
        """Assert every invariant."""
        self._index.check()
        used = self._index.slots
        assert self.rows.nbytes <= self._most_row_bytes + 64 * self.rows.num_columns
        # Every row belongs to exactly one slot, and that slot's key is the row's.
        owned = np.sort(self._row[used][self._row[used] != NO_ROW])
        assert np.array_equal(np.unique(owned), owned)
        assert not len(owned) or owned[-1] < len(self.rows)
        # A free slot has no row, and can never be found alive.
        free = np.setdiff1d(np.arange(self.capacity), used)
        assert (self._row[free] == NO_ROW).all()
        assert (self._expires[free] == _GONE).all()


@dataclass
class _Coming:
    """All newcomers as one: each key once, with what all its appearances were worth."""

    codes: Codes
    frequency: npt.NDArray[np.float32]
    expires: npt.NDArray[np.float64]
    row: npt.NDArray[np.int64]  # in `rows`, or NO_ROW
    rows: pa.Table


def _together(newcomers: list[Newcomers], schema: pa.Schema, words: int) -> _Coming:
    codes = np.concatenate([some.codes for some in newcomers])
    key = KeyIndex(len(codes), words).add(codes)
    keys, last = np.unique(key[::-1], return_index=True)
    last = len(codes) - 1 - last
    rows, counted = [], 0
    for some in newcomers:
        here = 0 if some.rows is None else len(some.rows)
        rows.append(np.arange(counted, counted + here) if here else np.full(len(some.codes), NO_ROW))
        counted += here
    return _Coming(
        codes=picked(codes, last),
        frequency=np.bincount(key, np.concatenate([some.frequency for some in newcomers]))[keys].astype(np.float32),
        expires=np.concatenate([some.expires for some in newcomers])[last],
        row=np.concatenate(rows)[last],
        rows=pa.concat_tables([schema.empty_table(), *(some.rows for some in newcomers if some.rows is not None)]),
    )


def _widths(rows: pa.Table, numbers: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Bytes of each of these rows; none for NO_ROW."""
    fixed, texts = 1.0, np.zeros(len(rows) + 1)  # a byte for the bits that tell nulls; the last is NO_ROW's
    for column in rows.columns:
        if pa.types.is_primitive(column.type):
            fixed += column.type.bit_width / 8 + 1 / 8
        elif pa.types.is_string(column.type) or pa.types.is_binary(column.type):
            texts[:-1] += 4 + np.asarray(pc.fill_null(pc.binary_length(column), 0))
        else:
            texts[:-1] += column.nbytes / max(1, len(column))
    texts[:-1] += fixed
    widths: npt.NDArray[np.float64] = texts[numbers]
    return widths
