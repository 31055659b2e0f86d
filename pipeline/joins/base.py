"""The contract every join keeps, and the bookkeeping they share.

A join is an object over one dimension that outlasts micro-batches. Its user offers sales, steps until nothing is
pending, and gets every sale back at least once: with its master row, or with the proof that there is none.

    position = join.offer(positions, keys)     # how many sales were taken; offer the rest again later
    for served in join.step(): ...             # one iteration of the paper's outer loop

Nothing of the *stream* may outlive a micro-batch: step until `pending` is 0. Master rows may.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.errors import BudgetTooSmall
from pipeline.master.port import Master

Positions = npt.NDArray[np.int64]
Clock = Callable[[], float]

_LEAST_SALE_BYTES = 96  # no join holds a sale in less, what it makes on the way counted

ABSENT = -1  # in `Served.match`: proved not to be in R, or the sale's key was null


@dataclass(frozen=True)
class Served:
    """Sales that left a join."""

    sales: Positions  # positions as they were offered
    rows: pa.Table  # master rows
    match: Positions  # for each of `sales` its row in `rows`, or ABSENT


@dataclass
class JoinStatistics:
    """What a join did since it was made. All counts are of sales unless said otherwise."""

    offered: int = 0
    null_keys: int = 0
    matched: int = 0  # pairs of sale and master row
    unmatched: int = 0
    hits: int = 0  # served from memory, a remembered absence included
    misses: int = 0  # had to ask the master
    evicted: int = 0  # master rows thrown out of memory
    steps: int = 0


class Join(ABC):
    """One semi-stream join. A new algorithm says how it admits sales and what one iteration does."""

    name: ClassVar[str]

    def __init__(self, master: Master, memory: int, batch: int = 2_000) -> None:
        self.master = master
        self.memory = memory  # bytes for everything this join keeps or makes
        self.batch = batch  # most keys, or rows, of one request to the master
        self.statistics = JoinStatistics()
        self._null_keys: list[Positions] = []

    def offer(self, positions: Positions, keys: pa.Array) -> int:
        """Admit as many of these sales, from the front, as the budget allows; say how many.

        `positions` ascend, within a call and from call to call, until nothing is pending.
        """
        # To look at more sales than could be taken would cost memory that the budget does not have.
        most = max(1, self.memory // _LEAST_SALE_BYTES)
        positions, keys = positions[:most], keys.slice(0, most)
        known = np.flatnonzero(pc.is_valid(keys).to_numpy(zero_copy_only=False))
        nulls = len(keys) - len(known)
        if not nulls:
            taken = self._admit(positions, keys)
        else:
            admitted = self._admit(positions[known], keys.take(pa.array(known)))
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
        served = [self._absent(positions) for positions in self._null_keys]
        self._null_keys = []
        if self._pending():
            served += self._iterate(drain)
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
    def _admit(self, positions: Positions, keys: pa.Array) -> int:
        """Take sales with non-null keys from the front; say how many."""

    @abstractmethod
    def _iterate(self, drain: bool) -> list[Served]:
        """One iteration of the paper's outer loop."""

    @abstractmethod
    def _pending(self) -> int:
        """Sales in the algorithm's own structures."""

    def _absent(self, positions: Positions) -> Served:
        return Served(positions, self.master.schema.empty_table(), np.full(len(positions), ABSENT, np.int64))

    def _require(self, needed: int, why: str) -> None:
        if self.memory < needed:
            raise BudgetTooSmall(
                f"{self.name}: memory = {self.memory:,} bytes, but {why} needs {needed:,}. "
                f"Raise the dimension's memory to at least {needed:,} bytes."
            )


def match(keys: pa.Array, rows: pa.Table) -> Positions:
    """For each key the row that has it, or ABSENT. Keys of `rows` must be distinct; equality is of bytes."""
    found = pc.index_in(keys, value_set=rows["key"].combine_chunks())
    return np.asarray(pc.fill_null(found, ABSENT)).astype(np.int64)
