"""MESHJOIN: R is scanned over and over, and every sale stays until the scan has come round to it again."""

from __future__ import annotations

from collections import deque
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.joins.base import USUAL, Join, Options, Served, matched_rows
from pipeline.joins.budget import to_split
from pipeline.joins.cost import meshjoin as cost
from pipeline.joins.cost.units import Prediction, Relation, UnitCosts
from pipeline.joins.parts.cycle import CyclicScan
from pipeline.joins.parts.keycodes import Codes
from pipeline.joins.parts.keyindex import Slots
from pipeline.joins.parts.waiting import Places, Positions, WaitingSales
from pipeline.master.port import Master


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
        queue is full (see CyclicScan). With `drain` an iteration goes on without w new sales; if all waiting sales
        have been served, they leave before their cycle ends. With a unique key a sale is put out once, though R may
        move a row. Where keys repeat in R, the pairs of one read may be many times the memory: then the iteration ends
        with as many as there is room for, the next ones go on with the same read, and nobody is admitted meanwhile.
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
        self._scan = CyclicScan(master, self.split.b, self.split.slots, self._reads_a_segment())  # of R, and Q
        self._arrived = 0  # sales in H that no segment has yet
        self._newest = -1  # position of the last of them
        self._met = 0  # marks set, if the key is unique
        self._rows: pa.Table = master.schema.empty_table()  # of the read in hand
        self._portions: deque[tuple[Slots, npt.NDArray[np.int32]]] = deque()  # of its matches, not yet put out
        self._buffer_bytes = 0

    @classmethod
    def predict(cls, memory: int, relation: Relation, options: Options) -> Prediction:
        return cost.predict(to_split(memory), relation, options.stream, options.costs)

    @classmethod
    def least(cls, relation: Relation, options: Options) -> float:
        return cost.least(relation)

    def _split(self, costs: UnitCosts) -> cost.Split:
        return cost.split(self.to_split, self.relation, costs)

    def _reads_a_segment(self) -> int:
        return 1

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
    #   2    read b pages from R and w tuples from S              -> _admit, CyclicScan.read
    #   3    if queue Q is full: dequeue T, w pointers; remove
    #        the tuples of hash H that correspond to T            -> _expire, as soon as their cycle ends
    #   4    add the w tuples to H, enqueue pointers to them      -> _enqueue, at the place where the read begins
    #   5    for each tuple r in the b pages: output r join H     -> _read, _probe
    def _iterate(self, drain: bool) -> list[Served]:
        if not self._portions:
            if not drain and self._waits_for_more():
                return []
            self._enqueue()
            self._read()
        served = self._probe()
        if not self._portions:
            served += self._expire()
        if not self._pending():
            self._clear()
        return served

    def _waits_for_more(self) -> bool:
        return self._arrived < self.split.w and self._room() > 0

    def _enqueue(self) -> None:
        if self._arrived:
            self._scan.enqueue(self._newest)
            self._arrived = 0

    def _read(self) -> None:
        self._rows = self._scan.read()
        codes = self.coder.encode(self._rows["key"].combine_chunks(), remember=False)
        self._portions.extend(self._waiting.portions(codes))
        self._buffer_bytes = self._rows.nbytes + codes.nbytes

    def _probe(self) -> list[Served]:
        if not self._portions:
            return []
        places, numbers = self._waiting.pairs(*self._portions.popleft())
        if self.master.unique:
            new = ~self._waiting.met[places]
            places, numbers = places[new], numbers[new]
        if not len(places):
            return []
        rows, match = matched_rows(self._rows, numbers)
        self._buffer_bytes = self._rows.nbytes + rows.nbytes
        if not self._portions:
            self._rows = self._rows.slice(0, 0)  # or it would still be there while the next ones are read
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
        for last in self._scan.complete():
            places = self._waiting.up_to(last)
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
        self._waiting.release(self._waiting.oldest(len(self._waiting)))
        self._scan.clear()
        self._met = 0

    def _room(self) -> int:
        if self._portions or (not self._arrived and not self._scan.takes_segment):
            return 0
        return min(self.split.w - self._arrived, self._waiting.room)

    def _pending(self) -> int:
        """Where a key may have many rows, nobody is finished before his cycle ends."""
        return len(self._waiting) - self._met

    def memory_used(self) -> dict[str, int]:
        sales = self._waiting.nbytes + self.coder.nbytes
        return {"disk buffer": self._buffer_bytes, "Q": self._scan.nbytes, "H": sales}

    def check(self) -> None:
        super().check()
        self._waiting.check()
        self._scan.check()
        # No mark is left behind.
        marked = np.flatnonzero(self._waiting.met)
        assert (self._waiting.slot[marked] < self._waiting.capacity).all()
        assert self._met == (len(marked) if self.master.unique else 0)
