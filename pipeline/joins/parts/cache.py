"""The front stage's memory: master rows, and keys proved absent, with how often each was wanted."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.joins.parts.contest import most_wanted, widths
from pipeline.joins.parts.gathering import Gathering
from pipeline.joins.parts.kept import KeptRows, index_of, slots_of
from pipeline.joins.parts.keycodes import Codes, picked
from pipeline.joins.parts.keyindex import KeyIndex, Slots
from pipeline.joins.parts.newcomers import NO_ROW, Coming, Newcomers, together
from pipeline.joins.parts.runs import begins, runs
from pipeline.joins.parts.sketch import Counts, Sketch

_SLOT_BYTES = 4 + 4 + 4  # the frequency, the moment it expires, and the row's number
_ROWS_BYTES = 4  # how many rows a key has, where it may have many
_TICK = 0.1  # seconds; moments are counted in ticks since the cache was made
_GONE = np.int32(0)
_NEVER = np.iinfo(np.int32).max  # ticks: a row that may grow as old as it likes
_ONE = np.float32(1)  # as it is, or numpy converts it for each use
_HEADSTART = 2.0  # uses: a newcomer has just been wanted, and others may have its counters in the sketch
_ROOM = -_HEADSTART

YOUNG = 8  # one part of so many of the cached rows may wait to come in
COPIED = 3  # the widest column is taken to be at most one part of so many of a row: it is copied while rows change


class RowCache(KeptRows):
    """
    Idea
        A hash index from key to slot; a slot knows its row's number in one Arrow table, how often it was wanted (the
        frequency recorder), and when it expires. Rows come and go in bulk: the most wanted of those in the cache and
        those that wait to come in stay. Where a key may have many rows, they lie together, come and go together, and
        count by how often each of them was wanted. How often others were wanted is remembered, too (Sketch): else a
        newcomer would count by its last uses, and one that left would have to begin anew.

    Memory
        bytes_for(C): C slots of index, recorder and row number, C rows, the newcomers' share, one column's copy, and
        the sketch. Where a key may have many rows, 4 bytes a slot more, and the Gathering before it.

    Example
        >>> rows = pa.table({"key": [7, 9], "surrogate_key": [70, 90]})
        >>> cache = RowCache(capacity=1, row_bytes=100_000, words=1, schema=rows.schema)
        >>> codes = np.array([[7], [9]], np.uint64)
        >>> wanted, expires = np.array([1, 5], np.float32), np.full(2, 60.0)
        >>> cache.consider(Newcomers(codes, rows, wanted, expires))
        >>> cache.merge(now=0.0), cache.find(codes, now=1.0).tolist(), cache.find(codes, now=61.0).tolist()
        (0, [-1, 0], [-1, -1])
        >>> cache.forget(codes[1:])
        >>> cache.find(codes, now=1.0).tolist(), len(cache)
        ([-1, -1], 0)
    """

    def __init__(
        self, capacity: int, row_bytes: float, words: int, schema: pa.Schema, unique: bool = True, recalls: bool = True
    ) -> None:
        """`unique`: a key has one row. `recalls`: keys that are not here."""
        self.capacity = capacity
        self.unique = unique
        self._most_row_bytes = capacity * row_bytes
        self._index = KeyIndex(capacity, words)
        self.rows: pa.Table = schema.empty_table()
        self._row = np.full(capacity, NO_ROW, np.int32)  # of a slot: its first row
        self._many = np.zeros(0 if unique else capacity, np.int32)  # of a slot: its rows
        self._expires = np.full(capacity, _GONE, np.int32)
        self._frequency = np.zeros(capacity, np.float32)
        self._sketch = Sketch(capacity if recalls else 0)
        self._newcomers: list[Newcomers] = []
        self._newcomer_bytes = 0
        self._least = _ROOM  # how often the least wanted of all was, when somebody had to stay outside last

    @staticmethod
    def bytes_for(capacity: int, row_bytes: float, words: int, unique: bool = True, recalls: bool = True) -> int:
        young = (row_bytes + 8 * words + 12) / YOUNG
        slot = _SLOT_BYTES + (0 if unique else _ROWS_BYTES)
        per_row = row_bytes * (1 + 1 / COPIED) + young + slot + 24
        gathered = 0 if unique else Gathering.bytes_for(capacity, row_bytes, words)
        sketch = Sketch.bytes_for(capacity if recalls else 0)
        return KeyIndex.bytes_for(capacity, words) + int(capacity * per_row) + 2_048 + gathered + sketch

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
    def nbytes(self) -> int:
        own = self._row.nbytes + self._many.nbytes + self._expires.nbytes + self._frequency.nbytes
        return self._index.nbytes + int(self.rows.nbytes) + own + self._sketch.nbytes

    @property
    def newcomer_bytes(self) -> int:
        return self._newcomer_bytes

    def find(self, codes: Codes, now: float) -> Slots:
        """The slot of each key that is here and has not expired, else -1."""
        slots = self._index.find(codes)
        slots[self._expires[slots] <= now / _TICK] = -1
        return slots

    def use(self, slots: Slots) -> npt.NDArray[np.int64]:
        """Note that these were wanted, once each time they are named; the number of their first row, or NO_ROW."""
        np.add.at(self._frequency, slots, _ONE)
        return self._row[slots].astype(np.int64)

    def many(self, slots: Slots) -> npt.NDArray[np.int64]:
        """How many rows each has."""
        return (self._row[slots] != NO_ROW).astype(np.int64) if self.unique else self._many[slots].astype(np.int64)

    def missed(self, codes: Codes) -> None:
        """Sales wanted these, which are not here."""
        self._sketch.missed(codes)

    def wanted(self, codes: Codes, lately: Counts) -> Counts:
        """How often keys that are not here were wanted; `lately`: since the master was asked for them."""
        return np.maximum(lately, self._sketch.wanted(codes))

    @property
    def bar(self) -> float:
        """Who was wanted no more than this would not come in."""
        return self._least + _HEADSTART

    def age(self, factor: float) -> None:
        self._frequency *= np.float32(factor)
        self._sketch.age(factor)
        self._least *= factor if self._least > 0 else 1

    def consider(self, newcomers: Newcomers) -> None:
        """Let these wait to come in."""
        self._newcomers.append(newcomers)
        self._newcomer_bytes += newcomers.nbytes

    def merge(self, now: float, contested: bool = True) -> int:
        """Let newcomers in and the least wanted out; how many of those that were in had to leave for others.

        `contested`: a newcomer that is wanted less than all inside stays outside.
        """
        newcomers, self._newcomers, self._newcomer_bytes = self._newcomers, [], 0
        coming = self._as_one(newcomers) if newcomers else None
        here = self._index.slots
        self._let_go(here[self._expires[here] <= now / _TICK])
        if coming is None:
            return 0
        enter, evicted = self._contest(coming, contested)
        slots = self._index.add(picked(coming.codes, enter))
        self._frequency[slots] = coming.frequency[enter]
        self._expires[slots] = np.minimum(coming.expires[enter] / _TICK, _NEVER).astype(np.int32)
        with_row = coming.many[enter] > 0
        first, many = coming.row[enter[with_row]], coming.many[enter[with_row]]
        self._change_rows(coming.rows.take(pa.array(runs(first, many))), slots[with_row], many)
        return evicted

    def _as_one(self, newcomers: list[Newcomers]) -> Coming:
        """What is here of the same keys leaves for it, and leaves it what it was wanted."""
        coming = together(newcomers, self.rows.schema, self._index.codes.shape[1])
        coming.frequency = self.wanted(coming.codes, coming.frequency)
        known = self._index.find(coming.codes)
        coming.frequency[known >= 0] += self._frequency[known[known >= 0]]
        self._drop(known[known >= 0])
        return coming

    def _contest(self, coming: Coming, contested: bool) -> tuple[npt.NDArray[np.int64], int]:
        """The most wanted stay, as far as there is room. Which newcomers may enter, and how many had to leave."""
        inside = self._index.slots
        here = self.many(inside)
        width = np.concatenate(
            [widths(self.rows, self._row[inside], here), widths(coming.rows, coming.row, coming.many)]
        )
        wanted = np.concatenate([self._frequency[inside], coming.frequency])
        wanted /= np.maximum(np.concatenate([here, coming.many]), 1)
        wanted[len(inside) :] += -_HEADSTART if contested else wanted.max(initial=0)
        stays = most_wanted(wanted, width, self._most_row_bytes, self.capacity)
        leave = inside[~stays[: len(inside)]]
        self._let_go(leave)
        self._least = _ROOM if stays.all() else max(0.0, float(wanted[stays].min(initial=np.inf)))
        return np.flatnonzero(stays[len(inside) :]), len(leave)

    def _let_go(self, slots: Slots) -> None:
        """They leave, and are remembered; whoever comes finds room."""
        if len(slots):
            self._sketch.left(self._index.codes_of(slots), self._frequency[slots])
            self._drop(slots)
            self._least = _ROOM

    def _drop(self, slots: Slots) -> None:
        if len(slots):
            self._index.remove(slots)
            self._expires[slots], self._row[slots], self._frequency[slots] = _GONE, NO_ROW, 0
            if not self.unique:
                self._many[slots] = 0

    def _change_rows(self, rows: pa.Table, slots: Slots, many: npt.NDArray[np.int64]) -> None:
        """Close up the rows that are left and add these, column by column: two copies of a column, never of all."""
        with_row = np.flatnonzero(self._row != NO_ROW).astype(np.int32)
        left = self.many(with_row)
        stay = runs(self._row[with_row], left)
        self._row[with_row] = begins(left)
        self._row[slots] = len(stay) + begins(many)
        if not self.unique:
            self._many[slots] = many
        schema, columns = self.rows.schema, {name: self.rows[name] for name in self.rows.column_names}
        self.rows = schema.empty_table()
        taken = pa.array(stay)
        for name in schema.names:
            old = columns.pop(name).take(taken)
            columns[f"new {name}"] = pa.chunked_array([*old.chunks, *rows[name].chunks], old.type).combine_chunks()
        self.rows = pa.Table.from_arrays(list(columns.values()), schema=schema)

    def forget(self, codes: Codes) -> None:
        """A row that is forgotten here leaves its table when others come in, like one that expires."""
        self._let_go(slots_of(codes, self._index))
        gone = index_of(codes)
        rest = [some.without(gone) for some in self._newcomers]
        self._newcomers = [some for some in rest if len(some.codes)]
        self._newcomer_bytes = sum(some.nbytes for some in self._newcomers)

    def clear(self) -> None:
        """Give back the rows; how often their keys were wanted is forgotten with them."""
        self._drop(self._index.slots)
        self._newcomers, self._newcomer_bytes, self.rows = [], 0, self.rows.schema.empty_table()

    def check(self) -> None:
        """Assert every invariant."""
        self._index.check()
        used = self._index.slots
        assert self.rows.nbytes <= self._most_row_bytes + 64 * self.rows.num_columns
        # Every row belongs to exactly one slot, and that slot's key is the row's.
        owner = used[self._row[used] != NO_ROW]
        owned = runs(self._row[owner], self.many(owner))
        assert len(np.unique(owned)) == len(owned)
        assert not len(owned) or 0 <= owned.min() <= owned.max() < len(self.rows)
        assert (self.many(owner) > 0).all()
        # A free slot has no row, and can never be found alive.
        free = np.delete(np.arange(self.capacity), used)
        assert (self._row[free] == NO_ROW).all()
        assert (self._expires[free] == _GONE).all()
        # What waits to come in is counted to the byte.
        assert self._newcomer_bytes == sum(some.nbytes for some in self._newcomers)
