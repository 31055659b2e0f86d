"""All rows of a key, gathered while its sales wait: where a key may have many, a cache holds all of them or none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.joins.parts.keycodes import Codes, picked
from pipeline.joins.parts.keyindex import KeyIndex, Slots

Positions = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.int64]

SHARE = 16  # one part of so many of the cached rows may be gathered
_TWICE = 2  # what is concluded is copied out of the rest, which is copied too
_LEADER_BYTES = 8 + 8 + 4 + 4  # position, moment, sales, rows
_SLOT_BYTES = 4  # of a gathered row
_NOBODY = -1


@dataclass(frozen=True)
class Gathered:
    """Keys with all their rows, one key's behind the other's."""

    codes: Codes
    rows: pa.Table
    many: Numbers  # rows of each key; 0 for one whose leader met none
    wanted: npt.NDArray[np.float32]  # sales that waited for it
    since: npt.NDArray[np.float64]  # before the first of its rows was asked for


class Gathering:
    """
    Idea
        One sale of each key leads. It comes out with every row of its key, once each, before it has met all of R: so
        what it comes out with is gathered, and complete when it is finished. That holds whatever the join does, and R
        needs no index. Where there is no room the keys whose rows are wanted least are given up.

    Memory
        bytes_for(C) before a cache of C rows: C / SHARE leaders, and rows of C / SHARE times the usual width, twice.

    Example
        >>> rows = pa.table({"key": [7, 9, 7], "surrogate_key": [70, 90, 71]})
        >>> codes = np.array([[7], [9], [7]], np.uint64)
        >>> gathering = Gathering(64, 100, 1, rows.schema)
        >>> gathering.follow(np.array([0, 1, 2]), codes, now=0.0)
        >>> gathering.gather(np.array([2, 0, 2, 0, 1]), rows, np.array([0, 0, 2, 2, 1]), codes)
        >>> done = gathering.conclude(lambda positions: positions < 1)
        >>> done.codes.tolist(), done.rows["surrogate_key"].to_pylist(), done.many.tolist(), done.wanted.tolist()
        ([[7]], [70, 71], [2], [2.0])
    """

    def __init__(self, cached_rows: int, row_bytes: float, words: int, schema: pa.Schema) -> None:
        self.capacity = self._leaders(cached_rows)
        self._most_bytes = cached_rows * row_bytes / SHARE
        self._schema = schema
        self._index = KeyIndex(self.capacity, words)
        self._leader = np.full(self.capacity, _NOBODY, np.int64)  # of a slot: the position of its sale
        self._since = np.zeros(self.capacity, np.float64)
        self._wanted = np.zeros(self.capacity, np.int32)
        self._many = np.zeros(self.capacity, np.int32)  # rows gathered
        self._rows: list[pa.Table] = []
        self._slot: list[Slots] = []  # of each gathered row
        self._bytes = 0

    @staticmethod
    def _leaders(cached_rows: int) -> int:
        return max(1, cached_rows // SHARE)

    @classmethod
    def bytes_for(cls, cached_rows: int, row_bytes: float, words: int) -> int:
        leaders = cls._leaders(cached_rows)
        rows = cached_rows / SHARE * (row_bytes + _SLOT_BYTES) * _TWICE
        return int(rows) + leaders * _LEADER_BYTES + KeyIndex.bytes_for(leaders, words) + 1_024

    @property
    def nbytes(self) -> int:
        own = self._leader.nbytes + self._since.nbytes + self._wanted.nbytes + self._many.nbytes
        return own + self._index.nbytes + self._bytes

    @property
    def is_full(self) -> bool:
        """No key more can be led, or half of the room for rows is taken."""
        return len(self._index) == self.capacity or 2 * self._bytes >= self._most_bytes

    def follow(self, positions: Positions, codes: Codes, now: float) -> None:
        """These sales begin to wait. The first of a key leads, if there is room."""
        slots = self._index.find(codes)
        unknown = np.flatnonzero(slots < 0)[: self.capacity - len(self._index)]
        if len(unknown):
            slots[unknown] = self._index.add(picked(codes, unknown))
            new, first = np.unique(slots[unknown], return_index=True)
            self._leader[new], self._since[new] = positions[unknown[first]], now
        np.add.at(self._wanted, slots[slots >= 0], 1)

    def gather(self, sales: Positions, rows: pa.Table, match: Numbers, codes: Codes) -> None:
        """These sales have come out with these rows, which have these keys."""
        slot = self._index.find(codes)[match]
        led = np.flatnonzero((slot >= 0) & (self._leader[slot] == sales))
        if not len(led):
            return
        np.add.at(self._many, slot[led], 1)
        row_bytes = rows.nbytes / len(rows) + _SLOT_BYTES
        if self._bytes + len(led) * row_bytes > self._most_bytes:
            self._give_up(row_bytes)
            led = led[self._leader[slot[led]] != _NOBODY]
        self._rows.append(rows.take(pa.array(match[led])))
        self._slot.append(slot[led])
        self._count()

    def _give_up(self, row_bytes: float) -> None:
        """Half of the room stays taken, by the keys whose rows are wanted most."""
        leaders = self._index.slots
        leaders = leaders[np.argsort(-self._wanted[leaders] / np.maximum(self._many[leaders], 1), kind="stable")]
        fits = np.cumsum(self._many[leaders], dtype=np.int64) * row_bytes <= self._most_bytes / 2
        self._drop(leaders[~fits])
        self._keep(self._leader != _NOBODY)

    def conclude(self, finished: Callable[[Positions], npt.NDArray[np.bool_]]) -> Gathered:
        """The keys whose leaders are finished, with all their rows; they are gathered no more."""
        leaders = self._index.slots
        done = leaders[finished(self._leader[leaders])]
        rows, slot = self._together()
        mine = np.zeros(self.capacity, np.bool_)
        mine[done] = True
        of_done = np.flatnonzero(mine[slot])
        of_done = of_done[np.argsort(slot[of_done], kind="stable")]
        gathered = Gathered(
            codes=self._index.codes_of(done),
            rows=rows.take(pa.array(of_done)),
            many=self._many[done].astype(np.int64),
            wanted=self._wanted[done].astype(np.float32),
            since=self._since[done].copy(),
        )
        self._drop(done)
        self._keep(~mine)
        return gathered

    def _together(self) -> tuple[pa.Table, Slots]:
        rows = pa.concat_tables([self._schema.empty_table(), *self._rows])
        return rows, np.concatenate([np.empty(0, np.int32), *self._slot])

    def _keep(self, stays: npt.NDArray[np.bool_]) -> None:
        """Only the rows of these slots."""
        rows, slot = self._together()
        left = np.flatnonzero(stays[slot])
        self._rows, self._slot = [], []
        if len(left):
            self._rows, self._slot = [rows.take(pa.array(left)).combine_chunks()], [slot[left]]
        self._count()

    def _drop(self, slots: Slots) -> None:
        self._index.remove(slots)
        self._leader[slots], self._wanted[slots], self._many[slots] = _NOBODY, 0, 0

    def _count(self) -> None:
        self._bytes = sum(int(some.nbytes) for some in self._rows) + sum(some.nbytes for some in self._slot)

    def check(self) -> None:
        """Assert every invariant."""
        self._index.check()
        leaders = self._index.slots
        assert np.array_equal(np.flatnonzero(self._leader != _NOBODY), leaders)
        # Every row that is here is a leader's, and counted.
        slot = self._together()[1]
        assert np.array_equal(np.bincount(slot, minlength=self.capacity), self._many)
        assert (self._wanted[leaders] > 0).all()
