"""X-HYBRIDJOIN as its paper has it: HYBRIDJOIN, with the first part of R kept in memory."""

from __future__ import annotations

from typing import Any, ClassVar

from pipeline.joins.algorithm import Served, Workplace, matched_rows
from pipeline.joins.cost import xhybridjoin as cost
from pipeline.joins.cost.question import Model
from pipeline.joins.hybridjoin import HybridJoin
from pipeline.joins.parts.firstpart import FirstPart
from pipeline.joins.parts.kept import KeptRows


class PublishedExtendedHybridJoin(HybridJoin):
    """
    Idea
        R is sorted by how much its rows are wanted, so its first part serves most sales. It stays, and in every
        iteration each of its rows is looked up in H, before a page is read for the sale that waits longest.

    Memory
        M = d_S * v_R + d_N * v_R + h_S * v_S, the paper's equation 4, and the client's directory of R's pages.

    Departures from the paper
        Those of HYBRIDJOIN as published. The first part is read again when it is older than `max_staleness`; with
        none allowed, nothing stays. Line 4 waits for w tuples, and before the first sale w is all of H: here those come
        in that there are. A page may begin with rows of the first part, if that ends within the page. A key of the
        first part that has no row costs the read of its page, which the paper never reads again.

    Example
        >>> import numpy as np, pyarrow as pa
        >>> from pipeline.joins import Options, make
        >>> from pipeline.joins.xhybridjoin import Settings
        >>> from pipeline.master.memory import MemoryMaster
        >>> R = MemoryMaster.of({b"ale": 1, b"bun": 2, b"cod": 3, b"dip": 4})
        >>> published = Settings(published=True, d=2, d_N=1)
        >>> join = make("x-hybridjoin", R, memory=64_000, options=Options(settings={"x-hybridjoin": published}))
        >>> join.offer(np.arange(4), pa.array([b"cod", b"ale", b"ale", b"bun"], pa.binary()))
        4
        >>> [served.sales.tolist() for served in join.step()], join.pending, join.statistics.hits
        ([[2, 1], [0]], 1, 2)

    Reference
        Naeem, Dobbie, Weber: Efficient Processing of Streaming Updates with Archived Master Data in Near-Real-Time
        Data Warehousing, KAIS 2013.
    """

    name: ClassVar[str] = "x-hybridjoin"
    model: ClassVar[Model[Any]] = cost
    keeps_rows: ClassVar[bool] = True
    rows_probe: ClassVar[bool] = True

    # Algorithm 1.
    #    1  LOAD first partition p1 of R into the non-swappable part of the disk buffer.
    #    2  w <- h_S
    def __init__(self, workplace: Workplace) -> None:
        super().__init__(workplace)
        # Of the bytes of a row, those that a copy of it takes are for the rows that are handed out.
        row_bytes = self.R.row_bytes - self.R.v_R
        self._first = FirstPart(
            self.master, self.coder, self.split.d_N, row_bytes, workplace.max_staleness, workplace.clock
        )
        self._copied_bytes = 0

    #    3  while (true) do
    def iterate(self, drain: bool) -> list[Served]:
        self._first.refresh()
        served = self._probe_first()
        if len(self._waiting):
            served += super().iterate(drain)
        if len(self._first):
            self.asked_at = min(self.asked_at, self._first.asked_at)
        return served

    #    4    if (available stream tuples >= w) then
    #    5      READ w tuples from the stream buffer, load them into H and enqueue their join attribute values into Q.
    #    6      w <- 0
    #    7    end if
    # As in HYBRIDJOIN: `admit`.
    #    8    for each tuple r in p1 do
    #    9      if r in H then
    #   10        OUTPUT r join H
    #   11        w <- w + number of matching tuples found in H
    #   12        DELETE all matched tuples from H and the corresponding nodes from Q.
    #   13      end if
    #   14    end for
    def _probe_first(self) -> list[Served]:
        self.statistics.probed += len(self._first)
        self._copied_bytes = 0
        places, numbers = self._waiting.match(self._first.codes)
        if not len(places):
            return []
        self._wanted.leave(self._waiting.slot[places])
        self.statistics.hits += len(places)
        self.statistics.misses -= len(places)  # as which they came in
        rows, match = matched_rows(self._first.rows, numbers)
        self._copied_bytes = rows.nbytes if len(rows) < len(self._first) else 0
        return [Served(self._waiting.release(places), rows, match)]

    #   15    READ the oldest join attribute value from Q.
    #   16    LOAD a disk partition p_i (where 2 <= i <= n) of R into the swappable part of the disk buffer using the
    #         join attribute value as an index.
    #   17    for each tuple r in p_i do
    #   18      if r in H then
    #   19        OUTPUT r join H
    #   20        w <- w + number of matching tuples found in H
    #   21        DELETE all matched tuples from H and the corresponding nodes from Q.
    #   22      end if
    #   23    end for
    #   24  end while
    # As in HYBRIDJOIN: `iterate`.

    @property
    def kept(self) -> tuple[KeptRows, ...]:
        return (self._first,)

    def memory_used(self) -> dict[str, int]:
        return {**super().memory_used(), "first part": self._first.nbytes + self._copied_bytes}

    def check(self) -> None:
        super().check()
        self._first.check()
