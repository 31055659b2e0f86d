"""INLJ, the index nested loop join: every distinct key of the sales in hand is asked for by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from pipeline.joins.algorithm import Algorithm, Served, Workplace, at_least
from pipeline.joins.cost import inlj as cost
from pipeline.joins.cost.question import Model
from pipeline.joins.parts.keycodes import Codes
from pipeline.joins.parts.waiting import Places, Positions, WaitingSales


@dataclass(frozen=True)
class Settings:
    batch: int = 2_000  # most keys asked for in one query; 1: as published

    def __post_init__(self) -> None:
        at_least(1, batch=self.batch)


class IndexNestedLoopJoin(Algorithm):
    """
    Idea
        For each sale, find its master row by the index on the key. Sales with the same key that wait together share
        one look-up.

    Memory
        M = h_S * v_S + b * v_R, with h_S sales in hand and b keys a query. At most half of M goes to the second term.

    Departures from the paper
        hybridjoin-2011 (section 3) asks for one sale at a time, each for itself: that is `batch=1`. Larger batches send
        distinct keys in one `IN` list and share the answers.

    Example
        >>> from pipeline.joins import Options, make
        >>> from pipeline.master.memory import MemoryMaster
        >>> R = MemoryMaster.of({b"ale": 1, b"bun": 2, b"cod": 3, b"dip": 4})
        >>> join = make("inlj", R, memory=64_000, options=Options(settings={"inlj": Settings(batch=2)}))
        >>> join.offer(np.arange(3), pa.array([b"bun", b"elk", b"bun"], pa.binary()))
        3
        >>> matched, absent = join.step()
        >>> matched.sales.tolist(), matched.rows["surrogate_key"].take(pa.array(matched.match)).to_pylist()
        ([2, 0], [2, 2])
        >>> absent.sales.tolist(), absent.match.tolist(), join.pending
        ([1], [-1], 0)

    Reference
        Naeem, Dobbie, Weber: HYBRIDJOIN for Near-Real-Time Data Warehousing, 2011, section 3.
    """

    name: ClassVar[str] = "inlj"
    model: ClassVar[Model[Any]] = cost
    Settings: ClassVar[type] = Settings
    least_for: ClassVar[str] = "one sale and its master row"

    def __init__(self, workplace: Workplace) -> None:
        super().__init__(workplace)
        self.split = cost.split(self.question)
        self._waiting = WaitingSales(self.split.h_S, self.R.words)
        self._answer_bytes = 0

    # Section 3 has no pseudocode; what it says, for a batch of keys:
    #    1  take the next tuples from the stream
    def admit(self, positions: Positions, codes: Codes) -> int:
        self._waiting.admit(positions, codes)
        self.statistics.misses += len(positions)
        return len(positions)

    #    2  access R through its index with their join values
    #    3  output the matching tuples
    def iterate(self, drain: bool) -> list[Served]:
        sales, codes = self._next_sales()
        rows = self._look_up(codes)
        return self.leave(self._waiting, sales, rows)

    def _next_sales(self) -> tuple[Places, Codes]:
        """The sales that wait longest and their distinct keys, and with them all others with these keys."""
        oldest = self._waiting.oldest(self.split.b)
        if self.split.b == 1:
            return oldest, self._waiting.codes(oldest)
        slots = np.unique(self._waiting.slot[oldest])
        if len(slots) < self.split.b:  # some of them share a key: fill the query with the keys of others
            others = np.setdiff1d(self._waiting.index.slots, slots, assume_unique=True)
            slots = np.concatenate([slots, others[: self.split.b - len(slots)]])
        return self._waiting.with_keys(slots), self._waiting.index.codes_of(slots)

    def _look_up(self, codes: Codes) -> pa.Table:
        self.asked_at = self.workplace.clock()
        rows = self.master.lookup(self.coder.decode(codes))
        self._answer_bytes = rows.nbytes
        return rows

    @property
    def room(self) -> int:
        return self._waiting.room

    @property
    def pending(self) -> int:
        return len(self._waiting)

    def memory_used(self) -> dict[str, int]:
        return {"sales": self._waiting.nbytes + self.coder.nbytes, "answer": self._answer_bytes}

    def check(self) -> None:
        self._waiting.check()
