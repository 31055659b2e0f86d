"""`auto`, our own: the front stage, then the cheapest way to fetch what it missed; all chosen by measurement."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from pipeline.joins.algorithm import Algorithm, Served, Workplace
from pipeline.joins.cost import auto as cost
from pipeline.joins.cost.frontstage import Split
from pipeline.joins.cost.question import Model, Question
from pipeline.joins.cost.zipf import Zipf
from pipeline.joins.fetch import Fetch
from pipeline.joins.frontstage import FrontStage
from pipeline.joins.inlj import IndexNestedLoopJoin
from pipeline.joins.inlj import Settings as InljSettings
from pipeline.joins.meshjoin import MeshJoin
from pipeline.joins.recipe import Recipe

_REVIEW = 8  # times the cache's rows: so many sales show how the stream is distributed; then twice as many, and so on
_WORTH_CHANGING = 1.15  # how much faster another split must promise to be


@dataclass(frozen=True)
class Settings(InljSettings):
    """As INLJ's; where it scans, as MESHJOIN's cost model finds best."""

    b: ClassVar[int] = 0
    w: ClassVar[int] = 0
    k: ClassVar[int] = 0
    published: ClassVar[bool] = False

    key_filter: bool = True  # there may be a filter of all keys before it, where that pays: see `Sieve`


class AutoStage(FrontStage):
    """
    Idea
        Under skew nearly all sales find their row in the front stage's cache; without it, memory is worth more to the
        sales that wait for one shared scan. The split starts as the cost model says for an ordinary skew, and is
        reviewed when enough sales have shown how they are distributed. Where a cache would only take room, for so small
        is the memory or so alike are the sales, they are looked up, or fetched the cheapest way, without it. On a table
        without a unique index nothing can be looked up, and a key may have many rows: there MESHJOIN scans for what the
        cache has not.

    Memory
        As FrontStage, with Fetch behind it, or MESHJOIN. A review moves the border between them.

    Departures from the paper
        There is none: this is ours. See FrontStage for what it takes from CMESHJOIN.

    Example
        >>> import numpy as np, pyarrow as pa
        >>> from pipeline.joins import make
        >>> from pipeline.master.memory import MemoryMaster
        >>> R = MemoryMaster.of({b"ale": 1, b"bun": 2, b"cod": 3, b"dip": 4})
        >>> join = make("auto", R, memory=128_000)
        >>> for _ in range(2):
        ...     taken = join.offer(np.arange(3), pa.array([b"bun", b"elk", b"bun"], pa.binary()))
        ...     while join.pending:
        ...         served = join.step(drain=True)
        >>> join.statistics.misses, join.statistics.hits, R.reads.by_kind["lookup"].queries
        (3, 3, 1)

    Reference
        DESIGN, section 5.2.
    """

    name: ClassVar[str] = "auto"
    model: ClassVar[Model[Any]] = cost
    Settings: ClassVar[type] = Settings

    def __init__(self, workplace: Workplace) -> None:
        super().__init__(workplace, Recipe.of(Fetch if workplace.question.R.unique else MeshJoin))
        self._reviewed = replace(self.statistics)
        self._patience = 1

    def _divide(self, parts: Split) -> None:
        super()._divide(parts)
        if isinstance(self.inner, Fetch):
            self.inner.chosen = self.statistics

    def _merge(self) -> None:
        super()._merge()
        if self._review_is_due() and not self.pending:
            self._review()
            self._reviewed = replace(self.statistics)
            self._patience *= 2

    def _review_is_due(self) -> bool:
        enough = max(_REVIEW * self.cache.capacity, self.question.stream.batch)
        return self._sales_since_review() >= self._patience * enough

    @property
    def room(self) -> int:
        # The border moves when nothing waits.
        return 0 if self._review_is_due() and self.pending else super().room

    def iterate(self, drain: bool) -> list[Served]:
        # No more sales come in before the border has moved: a scan must not wait for them.
        return super().iterate(drain or self._review_is_due())

    def _review(self) -> None:
        """Move the border between cache and waiting sales if the stream, as seen by now, makes that worth its price."""
        stream = replace(self.question.stream, e=self._observed_exponent(), absent=self._observed_absent())
        seen = replace(self.seen, stream=stream)
        staged = cost.staged(seen)
        best = staged.split(seen)
        now, then = (staged.outcome(parts, seen).mu for parts in (self.split, best))
        if then > _WORTH_CHANGING * now:
            # The cached rows go too: to keep them would take both memories at once. One window brings them back.
            self.cache.clear()
            self.question = seen
            self._divide(best)
            self._patience = 1

    @property
    def seen(self) -> Question[Any]:
        return replace(self.question, costs=self.inner.seen.costs) if isinstance(self.inner, Fetch) else self.question

    def _observed_exponent(self) -> float:
        """Zipf's exponent with which a cache like ours would have had the hits that it had."""
        hits = self.statistics.hits - self._reviewed.hits
        share, cached = hits / max(1, self._sales_since_review()), max(1, len(self.cache.rows))
        low, high = 0.0, 2.0
        for _ in range(12):
            e = (low + high) / 2
            low, high = (e, high) if Zipf(self.R.R_t, e).share(cached) < share else (low, e)
        return low

    def _observed_absent(self) -> float:
        """Of the sales that come here: those that are known to have no row before do not."""
        lately = self.statistics - self._reviewed
        absent = max(0, lately.unmatched - lately.null_keys - lately.ruled_out)
        return absent / max(1, lately.matched + absent)

    def _sales_since_review(self) -> int:
        seen, before = self.statistics, self._reviewed
        return seen.hits + seen.misses - before.hits - before.misses


class LookUpsAlone(IndexNestedLoopJoin):
    """INLJ, where a key has one row and `auto` has too little memory for a cache."""

    def iterate(self, drain: bool) -> list[Served]:
        self.statistics.looked_up += 1
        return super().iterate(drain)


def _build(workplace: Workplace) -> Algorithm:
    if cost.has_cache(workplace.question.as_planned):
        return AutoStage(workplace)
    way = cost.alone(workplace.question.as_planned)
    build: dict[cost.Alone, Callable[[Workplace], Algorithm]]
    build = {cost.LOOK_UPS: LookUpsAlone, cost.FETCH: Fetch, cost.SCAN: MeshJoin}
    return build[way](replace(workplace, question=way.asked(workplace.question)))


AUTO = replace(
    Recipe.of(AutoStage),
    build=_build,
    needed="one sale and what it takes to find its master rows",
    needs_index=False,
    has_front_stage=True,
    has_sieve=True,
)
