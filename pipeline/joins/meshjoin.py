"""MESHJOIN: R is scanned over and over, and every sale stays until the scan has come round to it again."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.joins.algorithm import Algorithm, Served, Workplace, at_least, matched_rows
from pipeline.joins.cost import meshjoin as cost
from pipeline.joins.cost.question import Model
from pipeline.joins.parts.cycle import CyclicScan
from pipeline.joins.parts.keycodes import Codes
from pipeline.joins.parts.keyindex import Slots
from pipeline.joins.parts.streambuffer import StreamBuffer
from pipeline.joins.parts.waiting import Places, Positions, WaitingSales


@dataclass(frozen=True)
class Settings:
    b: int = 0  # rows a read; 0: as the cost model finds best
    w: int = 0  # sales a segment; 0: as many as there is room for
    k: int = 0  # segments in Q at most; 0: one for each read of a cycle, or fewer where the memory is small
    published: bool = False  # figure 4: a sale stays for its whole cycle, and is copied from a stream buffer of w

    def __post_init__(self) -> None:
        at_least(0, b=self.b, w=self.w, k=self.k)


class MeshJoin(Algorithm):
    """
    Idea
        R is read in a cycle, b rows at a time, and each read is shared by all sales that wait. A sale may leave when
        it has met all of R. No index is needed, and a key of R may have many rows: a sale comes out with each.

    Memory
        M = b * v_R + k * v_Q + k * w * v_S, with k = R_t / b reads a cycle. So k ties the parts to each other: a
        smaller disk buffer needs a longer queue. The cost model chooses the b with the highest service rate.

    Departures from the paper
        b counts rows, not pages. The w sales of an iteration lie at the end of H and Q from the moment they are
        offered: there is no second buffer to copy them from. Segments leave when their cycle ends, not when the next
        iteration finds the queue full. If all waiting sales have been served, they leave before their cycle ends. None
        of this if `published`: then it is figure 4 to the letter. Also then: w varies by one from segment to segment,
        so that H is full, unless it is set; with `drain` an iteration goes on without w new sales, for the papers'
        streams never end; which segment has met all of R tells the scan (see CyclicScan). With a unique key a sale is
        put out once, though R may move a row. Where keys repeat in R, the pairs of one read may be many times the
        memory: then the iteration ends with as many as there is room for, the next ones go on with the same read, and
        no sale is admitted meanwhile. With little memory Q has fewer than k slots, and an iteration without a free slot
        admits no sale.

    Example
        >>> from pipeline.joins import make
        >>> from pipeline.master.memory import MemoryMaster
        >>> R = MemoryMaster.of({b"ale": 1, b"bun": 2, b"cod": 3, b"dip": 4})
        >>> join = make("meshjoin", R, memory=64_000)
        >>> join.offer(np.arange(3), pa.array([b"bun", b"elk", b"bun"], pa.binary())), join.step()
        (3, [])
        >>> met, expired = join.step(drain=True)
        >>> met.sales.tolist(), met.rows["surrogate_key"].to_pylist(), met.match.tolist(), expired.sales.tolist()
        ([2, 0], [2], [0, 0], [1])

    Reference
        Polyzotis, Skiadopoulos, Vassiliadis, Simitsis, Frantzell: Supporting Streaming Updates in an Active Data
        Warehouse, ICDE 2007.
    """

    name: ClassVar[str] = "meshjoin"
    model: ClassVar[Model[Any]] = cost
    Settings: ClassVar[type] = Settings
    least_for: ClassVar[str] = "a cycle over {rows:,} rows with a sale for every read"
    needs_index: ClassVar[bool] = False
    asks_by_key = False

    def __init__(self, workplace: Workplace) -> None:
        super().__init__(workplace)
        self.split: cost.Split = self.model.split(self.question)
        self._waiting = WaitingSales(self.split.h_S, self.R.words, marks=True)  # H, and Q's sales
        self._scan = CyclicScan(self.master, self.split.b, self.split.slots, self._reads_a_segment())  # of R, and Q
        self._segments = 0  # so far
        self._stream: StreamBuffer | None = None  # as published
        if self.question.settings.published:
            self._stream = StreamBuffer(-(-self.split.h_S // self.split.slots), self.R.words)
        self._arrived = 0  # sales that no segment has yet: in H, or in the stream buffer
        self._newest = -1  # position of the last of them
        self._met = 0  # marks set, if the key is unique
        self._finished = -1  # position of the last sale that has met all of R
        self._rows: pa.Table = self.master.schema.empty_table()  # of the read in hand
        self._portions: deque[tuple[Slots, npt.NDArray[np.int32]]] = deque()  # of its matches, not yet put out
        self._buffer_bytes = 0

    # Figure 4.
    #    1  While (true)
    #    2    Read b pages from R and w tuples from S
    # Here the iteration that reads waits for w sales, or for a full H. A segment leaves at the end of its cycle, behind
    # the probe; as published before the next one comes in.
    def iterate(self, drain: bool) -> list[Served]:
        served = []
        if not self._portions:
            if not drain and self._waits_for_more():
                return []
            if self._stream:
                served += self._expire()
                if not self.pending:
                    return served
            self._enqueue()
            self._read()
        served += self._probe()
        if not self._portions and not self._stream:
            served += self._expire()
        if not self.pending:
            self._clear()
        return served

    def _waits_for_more(self) -> bool:
        return self.room > 0 and (self._stream is None or self._scan.takes_segment)

    def _quota(self) -> int:
        """Sales of the next segment: w in the mean, and in all slots together what H holds."""
        h_S, slots = self.split.h_S, self.split.slots
        return (self._segments + 1) * h_S // slots - self._segments * h_S // slots

    #    3    If queue Q is full Then
    #    4      Dequeue T from Q where T are w pointers
    #    5      Remove the tuples of hash H that correspond to T
    #    6    EndIf
    # A sale that has met no row is absent.
    def _expire(self) -> list[Served]:
        served = []
        for last in self._scan.complete():
            places = self._waiting.up_to(last)
            absent = places[~self._waiting.met[places]]
            if self.master.unique:
                self._met -= len(places) - len(absent)
            if len(absent):
                served.append(self.absent(self._waiting.positions[absent], self._waiting.codes(absent)))
            self._waiting.release(places)
            self._finished = last
        return served

    #    7    Add the w tuples of S in H
    def admit(self, positions: Positions, codes: Codes) -> int:
        if not len(positions):
            return 0
        if self._stream:
            self._stream.admit(positions, codes)
        else:
            self._waiting.admit(positions, codes)
        self._arrived += len(positions)
        self._newest = int(positions[-1])
        self.statistics.misses += len(positions)
        return len(positions)

    #    8    Enqueue in Q, w pointers to the above tuples in H
    def _enqueue(self) -> None:
        if not self._arrived or not self._scan.takes_segment:
            return
        if self._stream:
            self._waiting.admit(*self._stream.taken())
        self._scan.enqueue(self._newest)
        self._arrived = 0
        self._segments += 1

    def _read(self) -> None:
        self.asked_at = self.workplace.clock()
        self._rows = self._scan.read()
        codes = self.codes_of(self._rows)
        self._portions.extend(self._waiting.portions(codes))
        self._buffer_bytes = self._rows.nbytes + codes.nbytes

    #    9    For each tuple r in the b pages of R
    #   10      Output r join H
    #   11  EndWhile
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

    def _reads_a_segment(self) -> int:
        return 1

    def _clear(self) -> None:
        """All sales have been served: none needs to stay."""
        self._waiting.release(self._waiting.oldest(len(self._waiting)))
        self._scan.clear()
        self._met, self._finished = 0, -1

    @property
    def room(self) -> int:
        left = self._quota() - self._arrived
        if self._stream:
            return left
        if self._portions or (not self._arrived and not self._scan.takes_segment):
            return 0
        return min(left, self._waiting.room)

    @property
    def pending(self) -> int:
        """Where a key may have many rows, or as published, no sale is finished before its cycle ends."""
        return len(self._waiting) + (self._arrived if self._stream else -self._met)

    def finished(self, positions: Positions) -> npt.NDArray[np.bool_]:
        return positions <= self._finished

    def waiting_with(self, codes: Codes) -> npt.NDArray[np.int64]:
        return self._waiting.number_with(codes)

    def memory_used(self) -> dict[str, int]:
        sales = self._waiting.nbytes + self.coder.nbytes + (self._stream.nbytes if self._stream else 0)
        return {"disk buffer": self._buffer_bytes, "Q": self._scan.nbytes, "H": sales}

    def check(self) -> None:
        self._waiting.check()
        self._scan.check()
        # No mark is left behind.
        marked = np.flatnonzero(self._waiting.met)
        assert (self._waiting.slot[marked] < self._waiting.capacity).all()
        assert self._met == (len(marked) if self.master.unique else 0)
