"""MESHJOIN: R is scanned over and over, and every sale stays until the scan has come round to it again."""

from __future__ import annotations

from collections import deque
from typing import ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from pipeline.joins.base import USUAL, Join, Options, Served, matched_rows
from pipeline.joins.budget import to_split
from pipeline.joins.cost import meshjoin as cost
from pipeline.joins.cost.units import Prediction, Relation, UnitCosts
from pipeline.joins.parts.keycodes import Codes
from pipeline.joins.parts.waiting import Places, Positions, WaitingSales
from pipeline.master.port import Master


class Segment(NamedTuple):
    """Sales that entered Q together. They have met all of R when the scan stands there again, one cycle later."""

    last: int  # position of the last of these sales
    start: bytes | None  # where the scan stood
    cycle: int  # which cycle it was


class MeshJoin(Join):
    """
    Idea
        R is read in a cycle, b rows at a time, and each read is shared by all sales that wait. A sale may leave when
        it has met all of R. No index is needed, and a key of R may have many rows: a sale comes out with each.

    Memory
        M = b * v_R + k * v_Q + k * w * v_S, with k = R_t / b reads a cycle. So k ties the parts to each other: a
        smaller disk buffer needs a longer queue. The cost model chooses the b with the highest service rate.

    Departures from the paper
        b counts rows, not pages. The w sales of an iteration lie at the end of H and Q from the moment they are
        offered: there is no second buffer to copy them from. Segments leave when their cycle ends, not when the
        queue is full: a segment remembers where the scan stood at its admission, and no read goes beyond the start
        of the oldest one; so each meets all of R exactly once, also when R grows or shrinks meanwhile. R's end costs
        a read that finds it. With `drain` an iteration goes on without w new sales; if all waiting sales have been
        served, they leave before their cycle ends. With a unique key a sale is put out once, though R may move a row.
        With little memory Q has fewer than k slots, and an iteration without a free slot admits nobody.

    Example
        >>> from pipeline.master.memory import MemoryMaster
        >>> R = MemoryMaster.of({b"ale": 1, b"bun": 2, b"cod": 3, b"dip": 4})
        >>> join = MeshJoin(R, memory=64_000)
        >>> join.offer(np.arange(3), pa.array([b"bun", b"elk", b"bun"], pa.binary())), join.step()
        (3, [])
        >>> met, expired = join.step(drain=True)
        >>> met.sales.tolist(), met.rows["surrogate_key"].to_pylist(), met.match.tolist(), expired.sales.tolist()
        ([0, 2], [2], [0, 0], [1])

    Reference
        Polyzotis, Skiadopoulos, Vassiliadis, Simitsis, Frantzell: Supporting Streaming Updates in an Active Data
        Warehouse, ICDE 2007.
    """

    name: ClassVar[str] = "meshjoin"
    needs_index: ClassVar[bool] = False
    asks_by_key: ClassVar[bool] = False

    def __init__(self, master: Master, memory: int, options: Options = USUAL) -> None:
        super().__init__(master, memory, options)
        self.require(cost.least(self.relation), f"a cycle over {self.size.rows:,} rows with a sale for every read")
        self.split = self._split(options.costs)
        self._waiting = WaitingSales(self.split.h_S, self.coder.words, marks=True)  # H, and Q's sales
        self._segments: deque[Segment] = deque()  # Q's slots, the oldest first
        self._arrived = 0  # sales in H that no segment has yet
        self._newest = -1  # position of the last of them
        self._met = 0  # marks set, if the key is unique
        self._position: bytes | None = None  # of the scan: survives micro-batches
        self._cycle = 0
        self._buffer_bytes = 0

    @classmethod
    def predict(cls, memory: int, relation: Relation, options: Options) -> Prediction:
        return cost.predict(to_split(memory), relation, options.stream, options.costs)

    @classmethod
    def least(cls, relation: Relation, options: Options) -> float:
        return cost.least(relation)

    def _split(self, costs: UnitCosts) -> cost.Split:
        return cost.split(self.to_split, self.relation, costs)

    def _admit(self, positions: Positions, codes: Codes) -> int:
        if not len(positions):
            return 0
        self._waiting.admit(positions, codes)
        self._arrived += len(positions)
        self._newest = int(positions[-1])
        self.statistics.misses += len(positions)
        return len(positions)

    # Paper, figure 4:
    #   1  while true
    #   2    read b pages from R and w tuples from S              -> _admit, _read
    #   3    if queue Q is full: dequeue T, w pointers; remove
    #        the tuples of hash H that correspond to T            -> _expire, as soon as their cycle ends
    #   4    add the w tuples to H, enqueue pointers to them      -> _enqueue
    #   5    for each tuple r in the b pages: output r join H     -> _probe
    def _iterate(self, drain: bool) -> list[Served]:
        if not drain and self._waits_for_more():
            return []
        start, cycle = self._position, self._cycle
        rows = self._read()
        self._enqueue(start, cycle)
        served = [*self._probe(rows), *self._expire()]
        if not self._pending():
            self._clear()
        return served

    def _waits_for_more(self) -> bool:
        return self._arrived < self.split.w and self._room() > 0

    def _read(self) -> pa.Table:
        """The next b rows, but none that the oldest segment has met."""
        oldest = self._segments[0] if self._segments else None
        until = oldest.start if oldest and oldest.cycle < self._cycle else None
        scan = self.master.scan(self._position, self.split.b, until)
        self._position = until if scan.reached else scan.position
        self._cycle += scan.reached and until is None
        return scan.rows

    def _enqueue(self, start: bytes | None, cycle: int) -> None:
        if self._arrived:
            self._segments.append(Segment(self._newest, start, cycle))
            self._arrived = 0

    def _probe(self, rows: pa.Table) -> list[Served]:
        codes = self.coder.encode(rows["key"].combine_chunks(), remember=False)
        places, numbers = self._waiting.match(codes)
        if self.master.unique:
            new = ~self._waiting.met[places]
            places, numbers = places[new], numbers[new]
        self._buffer_bytes = rows.nbytes + codes.nbytes
        if not len(places):
            return []
        rows, match = matched_rows(rows, numbers)
        self._buffer_bytes += rows.nbytes
        return [Served(self._put_out(places), rows, match)]

    def _put_out(self, places: Places) -> Positions:
        """These sales have met a row; they stay, marked."""
        self._waiting.met[places] = True
        if self.master.unique:
            self._met += len(places)
        return self._waiting.positions[places]

    def _expire(self) -> list[Served]:
        """Let the segments go whose cycle is complete. Who has met no row is absent."""
        served = []
        while self._segments and self._segments[0].cycle < self._cycle and self._segments[0].start == self._position:
            places = self._waiting.up_to(self._segments.popleft().last)
            unmet = ~self._waiting.met[places]
            absent = places[unmet]
            if self.master.unique:
                self._met -= len(places) - len(absent)
            if len(absent):
                served.append(self.absent(self._waiting.positions[absent], self._waiting.codes(absent)))
            self._waiting.release(places)
        return served

    def _clear(self) -> None:
        """Everybody has been served: nobody needs to stay."""
        if self._segments:
            self._waiting.release(self._waiting.up_to(self._segments[-1].last))
            self._segments.clear()
            self._met = 0

    def _room(self) -> int:
        if len(self._segments) == self.split.slots:
            return 0
        return min(self.split.w - self._arrived, self._waiting.room)

    def _pending(self) -> int:
        """Where a key may have many rows, nobody is finished before his cycle ends."""
        return len(self._waiting) - self._met

    def memory_used(self) -> dict[str, int]:
        slots = sum(cost.SEGMENT_BYTES + len(segment.start or b"") for segment in self._segments)
        sales = self._waiting.nbytes + self.coder.nbytes
        return {"disk buffer": self._buffer_bytes, "Q": slots, "H": sales}

    def check(self) -> None:
        super().check()
        self._waiting.check()
        # Q has a slot for every segment.
        assert len(self._segments) <= self.split.slots
        # No mark is left behind.
        marked = np.flatnonzero(self._waiting.met)
        assert (self._waiting.slot[marked] < self._waiting.capacity).all()
        assert self._met == (len(marked) if self.master.unique else 0)
        # The oldest segment is the first that the scan comes round to.
        assert all(self._cycle - 1 <= segment.cycle <= self._cycle for segment in self._segments)
