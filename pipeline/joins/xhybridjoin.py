"""X-HYBRIDJOIN: HYBRIDJOIN, with the pages of R that are wanted most kept in memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from pipeline.errors import BadSetting
from pipeline.joins.algorithm import ABSENT, Algorithm, Positions, Served, Workplace, at_least
from pipeline.joins.cost import hybridjoin as page_cost
from pipeline.joins.cost import xhybridjoin as cost
from pipeline.joins.cost.question import Model
from pipeline.joins.hybridjoin import HybridJoin, Read
from pipeline.joins.hybridjoin import Settings as HybridJoinSettings
from pipeline.joins.parts.kept import KeptRows
from pipeline.joins.parts.keycodes import Codes, picked
from pipeline.joins.parts.keyindex import Slots
from pipeline.joins.parts.pages import PageDirectory
from pipeline.joins.parts.resident import ResidentPages, RowNumbers
from pipeline.joins.recipe import Recipe
from pipeline.joins.xhybridjoin_published import PublishedExtendedHybridJoin


@dataclass(frozen=True)
class Settings(HybridJoinSettings):
    l: int = -1  # pages that stay; -1: as the cost model finds best  # noqa: E741
    d_N: int = -1  # rows that stay, if `published`: R's first; -1: l pages

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(-1, l=self.l, d_N=self.d_N)
        if self.d_N >= 0 and (self.l >= 0 or not self.published):
            raise BadSetting(
                f"d_N = {self.d_N} rows stay: this needs published = true, and no l beside it (now l = {self.l}). "
                "Otherwise whole pages stay: say l, so many pages of d rows.",
                about=["d_N", "l", "published"],
            )


class ExtendedHybridJoin(HybridJoin):
    """
    Idea
        Under skew a few pages of R serve most sales. Keep l of them: sales that they serve never wait, and the others
        share the reads of the rest, as in HYBRIDJOIN.

    Memory
        M = k * v_P + l * v_P + h_S * v_S, as in the paper's equation 4, with k rows of the swappable part, l pages of
        as many rows that stay, the directory of R's pages, and the counters by which the l pages are chosen. The cost
        model chooses k and l together, for the sales' usual distribution. Where one page is too much, l = 0.

    Departures from the paper
        R need not be sorted by frequency: the pages kept are those observed to serve most sales, and they follow the
        stream when it changes (the paper starts anew then). The resident part is probed with the sales that come in,
        by an index on its rows, not the other way round: so no sale is probed twice, and a probe costs what comes in,
        not what is kept; this is how we read the later Optimised X-HYBRIDJOIN (ADC 2012, of which we have the abstract
        only). What it serves never enters H and Q. It is filled with pages that were read anyway. Its rows expire: none
        is served older than `max_staleness`. A sale whose page is kept but not its row is asked for by name with the
        next page. With `published` none of this is so: see PublishedExtendedHybridJoin.

    Example
        >>> from pipeline.joins import make
        >>> from pipeline.master.memory import MemoryMaster
        >>> R = MemoryMaster.of({b"ale": 1, b"bun": 2, b"cod": 3, b"dip": 4})
        >>> join = make("x-hybridjoin", R, memory=64_000)
        >>> for _ in range(2):
        ...     taken = join.offer(np.arange(2), pa.array([b"bun", b"cod"], pa.binary()))
        ...     while join.pending:
        ...         served = join.step()
        >>> join.statistics.misses, join.statistics.hits, R.reads.by_kind["page"].queries <= 2
        (2, 2, True)

    Reference
        Naeem, Dobbie, Weber: Efficient Processing of Streaming Updates with Archived Master Data in Near-Real-Time
        Data Warehousing, KAIS 2013.
    """

    name: ClassVar[str] = "x-hybridjoin"
    model: ClassVar[Model[Any]] = cost
    Settings: ClassVar[type] = Settings
    keeps_rows: ClassVar[bool] = True

    def __init__(self, workplace: Workplace) -> None:
        super().__init__(workplace)
        self._resident = ResidentPages(
            self.master.schema,
            self.coder,
            rows=page_cost.resident_rows(self.split.d, self.split.l),
            row_bytes=self.R.v_R,
            pages=page_cost.pages(self.split.d, self.R) if self.split.l else 0,
            clock=workplace.clock,
            max_staleness=workplace.max_staleness,
            waiting=self.split.h_S,
        )
        self._generation = 0
        self._hits: list[Served] = []

    # Algorithm 1.
    #    1  LOAD first partition p1 of R into the non-swappable part of the disk buffer.
    #    2  w <- h_S
    # Here `_observe` fills it, with pages that prove wanted.
    def _keep_up_with(self, directory: PageDirectory) -> None:
        """When the pages get new numbers, none is known as kept."""
        pages = directory.pages
        if self._generation != directory.generation:
            self._generation = directory.generation
            self._resident.begin_anew(pages)

    #    3  while (true) do
    def iterate(self, drain: bool) -> list[Served]:
        served, self._hits = self._hits, []
        if len(self._waiting):
            served += super().iterate(drain)
        if not len(self._waiting):
            self._resident.settle()
        self.statistics.evicted = self._resident.evicted
        return served

    #    4    if (available stream tuples >= w) then
    #    5      READ w tuples from the stream buffer, load them into H and enqueue their join attribute values into Q.
    #    6      w <- 0
    #    7    end if
    #    8    for each tuple r in p1 do
    #    9      if r in H then
    #   10        OUTPUT r join H
    #   11        w <- w + number of matching tuples found in H
    #   12        DELETE all matched tuples from H and the corresponding nodes from Q.
    #   13      end if
    #   14    end for
    # Here the sales that come in are probed, and what the resident part serves does not enter H and Q.
    def admit(self, positions: Positions, codes: Codes) -> int:
        rows = self._resident.find(codes)
        hit = rows != ABSENT
        if hit.any():
            self._serve(positions[hit], rows[hit])
            others = np.flatnonzero(~hit)
            positions, codes = positions[others], picked(codes, others)
        if len(positions):
            super().admit(positions, codes)
        return len(hit)

    def _serve(self, positions: Positions, rows: RowNumbers) -> None:
        self._resident.use(rows)
        self._hits.append(Served(positions, self._resident.table, rows.astype(np.int64)))
        self.statistics.hits += len(positions)

    def _find_pages(self, slots: Slots) -> None:
        super()._find_pages(slots)
        if not self.split.l:
            return
        self._keep_up_with(self._pages)
        # The page is kept, and not the row: it is new, or does not exist, or sorts elsewhere. Another read of the page
        # would not tell.
        self._wanted.named.add(slots[self._resident.holds(self._wanted.page_of[slots])])

    #   15    READ the oldest join attribute value from Q.
    #   16    LOAD a disk partition p_i (where 2 <= i <= n) of R into the swappable part of the disk buffer using the
    #         join attribute value as an index.
    # As in HYBRIDJOIN: `_begin`, `_answer`.
    #   17    for each tuple r in p_i do
    #   18      if r in H then
    #   19        OUTPUT r join H
    #   20        w <- w + number of matching tuples found in H
    #   21        DELETE all matched tuples from H and the corresponding nodes from Q.
    #   22      end if
    #   23    end for
    #   24  end while
    def _probe(self, read: Read, rows: pa.Table) -> list[Served]:
        served = super()._probe(read, rows)
        if self.split.l:
            self._observe(read, rows, sum(len(piece.sales) for piece in served))
        return served

    def _observe(self, read: Read, rows: pa.Table, sales: int) -> None:
        """What a page has served says whether it is worth keeping."""
        found = self._waiting.index.find(read.codes) == ABSENT  # among those that wait
        if found.any():
            self._resident.distrust(read.pages[found])
        if read.page is not None and read.page.generation == self._pages.generation:
            self._resident.observe(read.page.page, sales)
            if len(rows) < self._pages.limit:
                self._resident.consider(read.page.page, sales, rows, self.asked_at)

    @property
    def room(self) -> int:
        return 0 if self._hits else super().room

    @property
    def pending(self) -> int:
        return super().pending + sum(len(piece.sales) for piece in self._hits)

    @property
    def kept(self) -> tuple[KeptRows, ...]:
        return (self._resident,)

    def memory_used(self) -> dict[str, int]:
        hits = sum(piece.sales.nbytes + piece.match.nbytes for piece in self._hits)
        return {**super().memory_used(), "resident": self._resident.nbytes, "hits": hits}

    def check(self) -> None:
        super().check()
        self._resident.check()


def _build(workplace: Workplace) -> Algorithm:
    published = workplace.question.settings.published
    return (PublishedExtendedHybridJoin if published else ExtendedHybridJoin)(workplace)


X_HYBRIDJOIN = replace(Recipe.of(ExtendedHybridJoin), build=_build)
