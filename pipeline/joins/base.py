"""The contract every join keeps, and the bookkeeping they share.

A join is an object over one dimension that outlasts micro-batches. Its user offers sales, steps until nothing is
pending, and gets every sale back at least once: with its master row, or with the proof that there is none.

    taken = join.offer(positions, keys)        # how many sales were taken; offer the rest again later
    for served in join.step(): ...             # one iteration of the paper's outer loop

Nothing of the *stream* may outlive a micro-batch: step until `pending` is 0. Master rows may.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.errors import BudgetTooSmall, NotUnique
from pipeline.joins.budget import LONG_KEYS_SHARE, longest_offer, memory_for, to_split
from pipeline.joins.counts import JoinStatistics
from pipeline.joins.cost.units import Prediction, Relation, Stream, UnitCosts
from pipeline.joins.parts.keycodes import LONG_KEY_BYTES, Codes, KeyCoder
from pipeline.joins.parts.waiting import Places, WaitingSales
from pipeline.master.port import Master, MasterStatistics

Positions = npt.NDArray[np.int64]
Clock = Callable[[], float]

ABSENT = -1  # in `Served.match`: proved not to be in R, or the sale's key was null


@dataclass(frozen=True)
class Served:
    """Sales that left a join."""

    sales: Positions  # positions as they were offered
    rows: pa.Table  # master rows: only those that matched, unless the table is kept in memory anyway
    match: Positions  # for each of `sales` its row in `rows`, or ABSENT
    absent_keys: Codes | None = None  # of the sales that are ABSENT, in order; None: not told


@dataclass(frozen=True)
class Options:
    """What shapes a join beside its master and its memory. Each join heeds what concerns it."""

    batch: int = 2_000  # most keys of one look-up
    costs: UnitCosts = field(default_factory=UnitCosts)
    stream: Stream = field(default_factory=Stream)  # what to expect of the sales
    planned: Stream | None = None  # what the memory was split for, if other sales came in the end
    max_staleness: float = 300.0  # seconds: no row is served that was read longer ago
    absent_staleness: float = 10.0  # the same for the knowledge that there is no row
    connections: int = 2  # to the master
    clock: Clock = time.monotonic

    @property
    def as_planned(self) -> Options:
        """What the memory is split by."""
        return self if self.planned is None else replace(self, stream=self.planned, planned=None)


USUAL = Options()


class Join(ABC):
    """One semi-stream join. A new algorithm says how it admits sales and what one iteration does."""

    name: ClassVar[str]
    needs_index: ClassVar[bool] = True  # on R's key, and a unique one: False only for joins that scan all of R
    keeps_rows: ClassVar[bool] = False  # from one micro-batch to the next, for up to `max_staleness`
    asks_by_key: ClassVar[bool] = True  # False: never needs a waiting sale's key again, only its code

    def __init__(
        self, master: Master, memory: int, options: Options = USUAL, size: MasterStatistics | None = None
    ) -> None:
        self.master = master
        self.memory = memory  # bytes for everything this join keeps or makes
        self.options = options
        self.size = size or master.statistics()
        self.coder = KeyCoder(master.key_type, self.size.key_bytes)
        self.statistics = JoinStatistics()
        self._null_keys: list[Positions] = []
        if self.needs_index and not master.unique:
            raise NotUnique(
                f"{self.name} needs a unique index on the natural key of the master table, which has none. "
                "Add one, or use meshjoin or r-meshjoin, which need no index and deliver every row of a key."
            )

    @classmethod
    def made(cls, master: Master, memory: int, options: Options) -> Join:
        """This join, or what it knows to be better with so little memory."""
        return cls(master, memory, options)

    @classmethod
    def predict(cls, memory: int, relation: Relation, options: Options) -> Prediction:
        """What the cost model says of this join with so much memory: every join of the registry has one."""
        raise NotImplementedError(f"{cls.name} is a part of other joins")

    @classmethod
    def least(cls, relation: Relation, options: Options) -> float:
        """Bytes for the algorithm's own parts without which it cannot work: as `predict`."""
        raise NotImplementedError(f"{cls.name} is a part of other joins")

    def offer(self, positions: Positions, keys: pa.Array) -> int:
        """Admit as many of these sales, from the front, as the budget allows; say how many.

        `positions` ascend, within a call and from call to call, until nothing is pending.
        """
        most = min(self._longest_offer, self._room())
        positions, keys = positions[:most], keys.slice(0, most)
        if not most:
            return 0
        keys = self._with_few_long_ones(keys)
        positions = positions[: len(keys)]
        if not keys.null_count:
            taken = self._admit(positions, self.coder.encode(keys, self.asks_by_key))
        else:
            known = np.flatnonzero(pc.is_valid(keys).to_numpy(zero_copy_only=False))
            admitted = (
                self._admit(positions[known], self.coder.encode(keys.drop_null(), self.asks_by_key))
                if len(known)
                else 0
            )
            taken = len(keys) if admitted == len(known) else int(known[admitted])
            unknown = np.setdiff1d(np.arange(taken), known, assume_unique=True)
            # A null key is the unknown member at once: no query, no place in the queue.
            if len(unknown):
                self._null_keys.append(positions[unknown])
                self.statistics.null_keys += len(unknown)
        self.statistics.offered += taken
        return taken

    def step(self, drain: bool = False) -> list[Served]:
        """Run one iteration of the algorithm and return what it served.

        `drain` says that no more sales will come before all pending ones are served. Only a join that otherwise waits
        for more input (MESHJOIN) needs to know.
        """
        self.statistics.steps += 1
        served = [self.absent(positions) for positions in self._null_keys]
        self._null_keys = []
        if self._pending():
            served += self._iterate(drain)
            if not self._pending():
                self.coder.forget()
        for piece in served:
            matched = int(np.count_nonzero(piece.match != ABSENT))
            self.statistics.matched += matched
            self.statistics.unmatched += len(piece.match) - matched
        return served

    @property
    def pending(self) -> int:
        """Sales admitted and not yet served."""
        return self._pending() + sum(map(len, self._null_keys))

    @property
    def label(self) -> str:
        """The algorithm as a metric names it."""
        return self.name

    @property
    def cached_rows(self) -> int:
        """Master rows kept in memory from one batch to the next."""
        return 0

    def memory_used(self) -> dict[str, int]:
        """Bytes in use by part; their sum never exceeds `memory`."""
        return {}

    def check(self) -> None:
        """Assert every invariant. Tests call it after each step."""
        used = self.memory_used()
        # The budget holds.
        assert sum(used.values()) <= self.memory, (used, self.memory)

    @abstractmethod
    def _room(self) -> int:
        """How many sales could be admitted now."""

    @abstractmethod
    def _admit(self, positions: Positions, codes: Codes) -> int:
        """Take sales, at most as many as there was room for, from the front; say how many."""

    @abstractmethod
    def _iterate(self, drain: bool) -> list[Served]:
        """One iteration of the paper's outer loop."""

    @abstractmethod
    def _pending(self) -> int:
        """Sales in the algorithm's own structures."""

    def absent(self, positions: Positions, codes: Codes | None = None) -> Served:
        """Sales proved to have no master row; with their keys, so that a front stage can remember it."""
        match = np.full(len(positions), ABSENT, np.int64)
        return Served(positions, self.master.schema.empty_table(), match, codes)

    def _leave(self, waiting: WaitingSales, sales: Places, rows: pa.Table) -> list[Served]:
        """These sales go: with their row, or because these rows prove that there is none."""
        match = waiting.rows_of(sales, self.coder.encode(rows["key"].combine_chunks(), remember=False))
        found, missing = match >= 0, sales[match < 0]
        absent = self.absent(waiting.positions[missing], waiting.codes(missing))
        matched = Served(waiting.positions[sales[found]], rows, match[found])
        waiting.release(sales)
        return [piece for piece in (matched, absent) if len(piece.sales)]

    def _with_few_long_ones(self, keys: pa.Array) -> pa.Array:
        """As many keys, from the front, as have no more long ones among them than there is room to remember."""
        if self.coder.is_integer or not self.asks_by_key or not len(keys):
            return keys
        long = np.flatnonzero(np.asarray(pc.fill_null(pc.binary_length(keys), 0)) > self.coder.longest)
        room = self._most_long_keys - self.coder.long_keys
        if len(long) <= room:
            return keys
        return keys.slice(0, int(long[max(0, room)])) if self._pending() or room > 0 else keys.slice(0, 1)

    @property
    def _most_long_keys(self) -> int:
        return max(1, self.memory // LONG_KEYS_SHARE // LONG_KEY_BYTES)

    @property
    def to_split(self) -> int:
        """Bytes left for the algorithm's own parts: the rest is for offers and small things."""
        return to_split(self.memory)

    @property
    def relation(self) -> Relation:
        """R as the cost models see it."""
        return relation(self.size, self.coder.words)

    def require(self, needed: float, why: str) -> None:
        """Refuse a budget that leaves less than `needed` bytes for the algorithm's own parts."""
        if self.to_split < needed:
            least = memory_for(needed)
            raise BudgetTooSmall(
                f"{self.name}: memory = {self.memory:,} bytes, but {why} needs {least:,}. "
                f"Raise the dimension's memory to at least {least:,} bytes."
            )

    @property
    def _longest_offer(self) -> int:
        return longest_offer(self.memory, self.coder.words)


def relation(size: MasterStatistics, words: int) -> Relation:
    """R as the cost models see it.

    A row in a disk buffer takes its own bytes, as many again for a run of wider rows or for the copy of the matching
    rows that is handed out, its key's code, and what a match makes of it.
    """
    v_R = max(8.0, size.row_bytes)
    return Relation(R_t=size.rows, v_R=v_R, words=words, row_bytes=2 * v_R + 8 * words + 24)


def matched_rows(rows: pa.Table, numbers: npt.NDArray[np.int32]) -> tuple[pa.Table, Positions]:
    """Only the rows that matched, once each, and the old numbers turned into numbers of these."""
    matched = np.zeros(len(rows), np.bool_)
    matched[numbers] = True
    used = np.flatnonzero(matched)
    if len(used) == len(rows):
        return rows, numbers.astype(np.int64)
    return rows.take(pa.array(used)).combine_chunks(), (np.cumsum(matched) - 1)[numbers]
