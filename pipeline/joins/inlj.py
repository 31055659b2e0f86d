"""INLJ, the index nested loop join: every distinct key of the sales in hand is asked for by name."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pyarrow as pa

from pipeline.joins.base import USUAL, Join, Options, Served
from pipeline.joins.budget import to_split
from pipeline.joins.cost import inlj as cost
from pipeline.joins.cost.units import Prediction, Relation
from pipeline.joins.parts.keycodes import Codes
from pipeline.joins.parts.waiting import Places, Positions, WaitingSales
from pipeline.master.port import Master


class IndexNestedLoopJoin(Join):
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
        >>> from pipeline.master.memory import MemoryMaster
        >>> R = MemoryMaster.of({b"ale": 1, b"bun": 2, b"cod": 3, b"dip": 4})
        >>> join = IndexNestedLoopJoin(R, memory=64_000, options=Options(batch=2))
        >>> join.offer(np.arange(3), pa.array([b"bun", b"elk", b"bun"], pa.binary()))
        3
        >>> matched, absent = join.step()
        >>> matched.sales.tolist(), matched.rows["surrogate_key"].take(pa.array(matched.match)).to_pylist()
        ([0, 2], [2, 2])
        >>> absent.sales.tolist(), absent.match.tolist(), join.pending
        ([1], [-1], 0)

    Reference
        Naeem, Dobbie, Weber: HYBRIDJOIN for Near-Real-Time Data Warehousing, 2011, section 3.
    """

    name: ClassVar[str] = "inlj"

    def __init__(self, master: Master, memory: int, options: Options = USUAL) -> None:
        super().__init__(master, memory, options)
        parts = cost.split(self.to_split, self.relation, options.batch)
        self.require(parts.least, "one sale and its master row")
        self.batch = parts.b
        self._waiting = WaitingSales(parts.h_S, self.coder.words)
        self._answer_bytes = 0

    @classmethod
    def predict(cls, memory: int, relation: Relation, options: Options) -> Prediction:
        return cost.predict(to_split(memory), relation, options.stream, options.costs, options.batch)

    @classmethod
    def least(cls, relation: Relation, options: Options) -> float:
        return cost.split(0, relation, options.batch).least

    # Paper, section 3, read for a batch of keys:
    #   1  while true
    #   2    read the next tuples from S                                  -> _admit
    #   3    access R by the index with their keys                        -> _look_up
    #   4    output the matching pairs; the tuples leave                  -> _leave
    def _admit(self, positions: Positions, codes: Codes) -> int:
        self._waiting.admit(positions, codes)
        self.statistics.misses += len(positions)
        return len(positions)

    def _iterate(self, drain: bool) -> list[Served]:
        sales, codes = self._next_sales()
        rows = self._look_up(codes)
        return self._leave(self._waiting, sales, rows)

    def _next_sales(self) -> tuple[Places, Codes]:
        """The sales that wait longest and their distinct keys, and with them everybody who wants the same."""
        oldest = self._waiting.oldest(self.batch)
        if self.batch == 1:
            return oldest, self._waiting.codes(oldest)
        slots = np.unique(self._waiting.slot[oldest])
        if len(slots) < self.batch:  # those who wait together want the same: fill the query with others' keys
            others = np.setdiff1d(self._waiting.index.slots, slots, assume_unique=True)
            slots = np.concatenate([slots, others[: self.batch - len(slots)]])
        return self._waiting.with_keys(slots), self._waiting.index.codes_of(slots)

    def _look_up(self, codes: Codes) -> pa.Table:
        rows = self.master.lookup(self.coder.decode(codes))
        self._answer_bytes = rows.nbytes
        return rows

    def _room(self) -> int:
        return self._waiting.room

    def _pending(self) -> int:
        return len(self._waiting)

    def memory_used(self) -> dict[str, int]:
        return {"sales": self._waiting.nbytes + self.coder.nbytes, "answer": self._answer_bytes}

    def check(self) -> None:
        super().check()
        self._waiting.check()
