"""The front stage: a cache of master rows, and of absences, in front of any join."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.joins.algorithm import ABSENT, Algorithm, Positions, Served, Workplace
from pipeline.joins.cost.frontstage import (
    WORTH_AN_OFFER,
    FrontStageModel,
    Settings,
    Split,
    behind,
    cached_rows,
    settings,
)
from pipeline.joins.counts import JoinStatistics
from pipeline.joins.parts.cache import RowCache
from pipeline.joins.parts.gathering import Gathering
from pipeline.joins.parts.hits import Hits
from pipeline.joins.parts.kept import KeptRows
from pipeline.joins.parts.keycodes import Codes, picked
from pipeline.joins.parts.newcomers import Newcomers, counted
from pipeline.joins.parts.runs import begins, runs
from pipeline.joins.parts.threshold import Threshold
from pipeline.joins.recipe import Recipe

SETTINGS = "cmeshjoin"  # the name of its settings, whatever join is behind
_JITTER = 0.1  # share of its life by which a row may expire early, so that a warm cache does not expire at once
_HALF_LIFE = 30  # a use counts half when so many sales a cached row have passed, but not before rows could come in


class FrontStage(Algorithm):
    """
    Idea
        Under skew a few master rows serve most sales. Keep those in memory; only the rest reaches the join behind.

    Memory
        M = M_inner + h_R * (v_R + 16 + index): h_R rows, their frequency recorder of 8 bytes a slot, 8 bytes to
        remember who is wanted and not inside, and the hash index H_R; and an eighth of the rows that wait to come in.
        M_inner is what the join behind splits: sales are offered here, so it needs no part of its own for that. An
        absent key takes a slot too, but no row, so that a flood of unknown keys asks the master once, not once a sale.
        Where a key may have many rows, an eighth more.

    Departures from the paper
        Frequencies fade (a use counts half after 30 sales a cached row, or a window), so that the cache follows the
        stream. Rows come in at the end of a window and all at once, the most wanted first; how often one was wanted in
        other windows, and when it was inside, is remembered (Sketch). The threshold is what the least wanted row inside
        is wanted, and two more; nothing while there is room. Rows expire: none is served older than `max_staleness`, no
        absence longer than `absent_staleness`. A sale needs all rows of its key, which the paper's R has one of: where
        no unique index promises that, a key's rows come in together, when one sale has met all of R and they are known
        to be all (see Gathering).

        If `published`, frequencies do not fade, a row that is wanted more than the threshold always comes in, and the
        least wanted has to leave for it, nothing is remembered of what is not inside, absences neither, and the join
        behind is as published, too. The threshold starts at 0, rises by half when more than a tenth of the cache is
        evicted while as many sales pass as it has rows, or in one window, and halves while the cache is not full: the
        paper says in which direction it moves, not by how much. Rows
        come in all at once even so, an eighth of the cache at most: each time all of them are written anew.

    Example
        >>> from pipeline.joins import make
        >>> from pipeline.master.memory import MemoryMaster
        >>> R = MemoryMaster.of({b"ale": 1, b"bun": 2, b"cod": 3, b"dip": 4})
        >>> join = make("front stage + inlj", R, memory=128_000)
        >>> for _ in range(2):
        ...     taken = join.offer(np.arange(3), pa.array([b"bun", b"elk", b"bun"], pa.binary()))
        ...     served = join.step()
        >>> join.statistics.misses, join.statistics.hits, R.reads.by_kind["lookup"].queries
        (3, 3, 1)

    Reference
        Naeem, Weber, Dobbie, Lutteroth: A Generic Front-Stage for Semi-Stream Processing (CMESHJOIN), CIKM 2013.
    """

    name: ClassVar[str] = "front stage"
    Settings: ClassVar[type] = Settings
    keeps_rows: ClassVar[bool] = True
    least_for: ClassVar[str] = ""  # as its recipe says: see `before`

    def __init__(self, workplace: Workplace, recipe: Recipe) -> None:
        """`recipe`: of the join behind."""
        super().__init__(workplace)
        self._recipe = recipe
        self._settings = settings(self.question)
        # Where the join behind keeps rows too, one that grew old there must not grow as old again in the cache.
        self._row_life = workplace.max_staleness / (2 if recipe.keeps_rows else 1)
        self._born = workplace.clock()
        self._random = np.random.default_rng(0)
        self._divide(FrontStageModel(recipe.model).split(self.question))
        self.asks_by_key = self.inner.asks_by_key
        self._hits = Hits(self.question.offer)
        self._probed = 0  # sales since the last merge

    def _divide(self, parts: Split) -> None:
        """Make the cache and the join behind of these sizes."""
        self.split = parts
        workplace = replace(
            self.workplace,
            question=behind(parts, self.question).as_planned,
            max_staleness=self._row_life,
            statistics=JoinStatistics(),
        )
        self.inner = self._recipe.build(workplace)
        self.settles_in = self.inner.settles_in
        unique, schema = self.R.unique, self.master.schema
        rows = self._settings.h_R or max(1, cached_rows(parts.cache, self.question))
        self.cache = RowCache(rows, self.R.v_R, self.R.words, schema, unique, not self._settings.published)
        self.gathering = None if unique else Gathering(rows, self.R.v_R, self.R.words, schema)
        self._published_threshold = Threshold(rows, fixed=self._settings.threshold)

    @property
    def threshold(self) -> float:
        """A row comes in if it is wanted more often than this."""
        adapts = not self._settings.published and self._settings.threshold < 0
        return self.cache.bar if adapts else self._published_threshold.value

    # Algorithm 1, for a block of sales at a time.
    #    1  while (true) do
    #    2    u <- 0 (the number of unmatched tuples)
    #    3    while (u < w) do
    #    4      READ stream tuple t from the stream buffer
    #    5      if t in H_R then
    #    6        OUTPUT t
    #    7      else
    #    8        ADD stream tuple t into H_S and also place a pointer to t into Q
    #    9        u <- u + 1
    #   10      end if
    #   11    end while
    def admit(self, positions: Positions, codes: Codes) -> int:
        if not self._hits.sales and (self.cache.newcomers_full or (not self.pending and self._merge_is_due)):
            self._merge()
        slot = self.cache.find(codes, self._now())
        missed = np.flatnonzero(slot < 0)
        admitted = self._to_the_join_behind(positions[missed], picked(codes, missed))
        taken = len(codes) if admitted == len(missed) else int(missed[admitted])
        hit = np.flatnonzero(slot[:taken] >= 0)
        if len(hit):
            many = None if self.R.unique else self.cache.many(slot[hit])
            self._hits.hold(positions[hit], self.cache.use(slot[hit]), many, self.cache.rows)
        self.statistics.hits += len(hit)
        self.statistics.misses += admitted
        self._probed += taken
        return taken

    @property
    def _merge_is_due(self) -> bool:
        """Where all who come are kept outside, it has to be seen again and again whether they still have to be."""
        fades = not self._settings.published and self._probed >= self.cache.capacity
        return self.cache.newcomer_bytes > 0 or fades

    def _to_the_join_behind(self, positions: Positions, codes: Codes) -> int:
        room = min(self.inner.room, len(codes))
        if room and self.gathering:
            self.gathering.follow(positions[:room], codes[:room], self._now())
        admitted = self.inner.admit(positions[:room], codes[:room]) if room else 0
        self.cache.missed(codes[:admitted])
        return admitted

    #   12    READ b number of tuples of R into the disk buffer
    #   13    for each tuple r in b do
    #   14      if r in H_S then
    #   15        OUTPUT r
    #   22    DELETE the oldest w tuples from H_S along with their corresponding pointers from Q
    #   23  end while
    def iterate(self, drain: bool) -> list[Served]:
        served = [Served(sales, rows, match).with_its_own_rows() for sales, match, rows in self._hits.take()]
        if self.inner.pending:
            fetched = self.inner.iterate(drain)
            for piece in fetched:
                self._consider(piece)
            if self.gathering and (self.gathering.is_full or not self.inner.pending):
                self._consider_gathered(self.gathering)
            served += fetched
        return served

    #   16        f <- number of matching tuples found in H_S
    #   17        if (f > thresholdValue) then
    #   18          SWITCH the tuple r into hash table H_R
    #   19        end if
    #   20      end if
    #   21    end for
    # Here the rows wait until `_merge` switches them in, all at once.
    def _consider(self, piece: Served) -> None:
        """Note the rows and absences worth keeping; what is wanted no more than the threshold is not even copied."""
        found = piece.match != ABSENT
        if self.gathering and found.any():
            self.gathering.gather(piece.sales[found], piece.rows, piece.match[found], self.codes_of(piece.rows))
        if self.cache.newcomers_full:
            return
        if not self.gathering:
            f = np.bincount(piece.match[found], minlength=len(piece.rows)).astype(np.float32)
            codes = self.codes_of(piece.rows)
            worth = np.flatnonzero((self.cache.wanted(codes, f) > self.threshold) & (f > 0))
            if len(worth):
                rows = piece.rows.take(pa.array(worth))
                expires = self._expiry(self._asked_at, len(worth), self._row_life)
                self.cache.consider(Newcomers(picked(codes, worth), rows, f[worth], expires))
        if piece.absent_keys is not None and len(piece.absent_keys) and not self._settings.published:
            codes, f = counted(piece.absent_keys)
            # A row meets all sales that wait for it; of an absent key's, those of a segment leave, and others later.
            wanted = self.cache.wanted(codes, f + self.inner.waiting_with(codes).astype(np.float32))
            worth = np.flatnonzero(wanted > self.threshold)
            expires = self._expiry(self._asked_at, len(worth), self.workplace.absent_staleness)
            self.cache.consider(Newcomers(picked(codes, worth), None, f[worth], expires))

    def _consider_gathered(self, gathering: Gathering) -> None:
        """The keys that have all their rows now. When nothing waits behind, all have."""
        done = gathering.conclude(self.inner.finished if self.inner.pending else _all)
        worth = np.flatnonzero((self.cache.wanted(done.codes, done.wanted) > self.threshold) & (done.many > 0))
        if not len(worth) or self.cache.newcomers_full:
            return
        rows = done.rows.take(pa.array(runs(begins(done.many)[worth], done.many[worth])))
        expires = self._expiry(done.since[worth], len(worth), self._row_life)
        self.cache.consider(Newcomers(picked(done.codes, worth), rows, done.wanted[worth], expires, done.many[worth]))

    def _merge(self) -> None:
        """Switch rows into H_R; the threshold follows from how many had to leave for them."""
        published = self._settings.published
        if not published:
            self.cache.age(0.5 ** min(1.0, self._probed / (_HALF_LIFE * max(1, self.cache.capacity))))
        was_full, evicted = self.cache.is_full, self.cache.merge(self._now(), contested=not published)
        self._published_threshold.judge(self._probed, evicted, was_full)
        self.statistics.evicted += evicted
        self._probed = 0

    def _expiry(self, asked_at: float | npt.NDArray[np.float64], count: int, life: float) -> npt.NDArray[np.float64]:
        """Behind the moment in which the master was asked: while it answers, its rows grow old already."""
        expires: npt.NDArray[np.float64] = asked_at + life * (1 - _JITTER * self._random.random(count))
        return expires

    @property
    def _asked_at(self) -> float:
        return self.inner.asked_at - self._born

    def _now(self) -> float:
        return self.workplace.clock() - self._born

    @property
    def room(self) -> int:
        # While the join behind is busy, even a sale that needs nothing from it must not overtake the budget: the hits
        # that are held are no more than those of the longest offer.
        longest = self.question.offer
        room = longest - self._hits.sales if self.inner.room and self._hits.pairs <= longest else 0
        return room if room >= longest // WORTH_AN_OFFER else 0

    @property
    def pending(self) -> int:
        return self.inner.pending + self._hits.sales

    @property
    def kept(self) -> tuple[KeptRows, ...]:
        return (self.cache, *self.inner.kept)

    def memory_used(self) -> dict[str, int]:
        used = Counter({"cache": self.cache.nbytes, "newcomers": self.cache.newcomer_bytes})
        if self.gathering:
            used["gathered"] = self.gathering.nbytes
        used.update(self.inner.memory_used())  # which may have a part of the same name
        return dict(used)

    def check(self) -> None:
        self.inner.check()
        self.cache.check()
        if self.gathering:
            self.gathering.check()


def before(recipe: Recipe, name: str = "") -> Recipe:
    """The front stage before another join: a recipe of its own."""
    return replace(
        recipe,
        name=name or f"{FrontStage.name} + {recipe.name}",
        build=lambda workplace: FrontStage(workplace, recipe),
        model=FrontStageModel(recipe.model),
        needed=f"{recipe.needed}, and one row in the cache before it,",
        keeps_rows=True,
        has_front_stage=True,
        front=SETTINGS,
    )


def _all(positions: Positions) -> npt.NDArray[np.bool_]:
    return np.ones(len(positions), np.bool_)
