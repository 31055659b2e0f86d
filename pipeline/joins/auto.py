"""`auto`, our own: the front stage, then the cheapest way to fetch what it missed; all chosen by measurement."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import ClassVar

from pipeline.joins.base import USUAL, Join, Options, relation
from pipeline.joins.budget import to_split
from pipeline.joins.cost import auto as cost
from pipeline.joins.cost import frontstage
from pipeline.joins.cost.units import Prediction, Relation, Stream, UnitCosts, Zipf
from pipeline.joins.fetch import Fetch
from pipeline.joins.frontstage import FrontStage
from pipeline.joins.inlj import IndexNestedLoopJoin
from pipeline.joins.parts.keycodes import KeyCoder
from pipeline.master.port import Master

_PLAIN = "takes look-ups alone: so little memory is worth more to the sales in hand than to a cache"
_WORTH_A_CACHE = 1.2
_REVIEW = 8  # times the cache's rows: so many sales show how the stream is distributed; then twice as many, and so on
_WORTH_CHANGING = 1.15  # how much faster another split must promise to be


class PlainLookUps(IndexNestedLoopJoin):
    """INLJ, under the name of the join that chose it."""

    name: ClassVar[str] = "auto"

    @classmethod
    def predict(cls, memory: int, relation: Relation, options: Options) -> Prediction:
        options = replace(options, costs=options.costs.of(IndexNestedLoopJoin.name))
        return replace(super().predict(memory, relation, options), remark=_PLAIN)


class AutoJoin(FrontStage):
    """
    Idea
        Under skew nearly all sales find their row in the front stage's cache; without it, memory is worth more to the
        sales that wait for one shared scan. The split starts as the cost model says for an ordinary skew, and is
        reviewed when enough sales have shown how they are distributed. Where the memory is so small that a cache would
        only take room, the sales are simply looked up.

    Memory
        As FrontStage, with Fetch behind it. A review moves the border between them.

    Departures from the paper
        There is none: this is ours. See FrontStage for what it takes from CMESHJOIN.

    Example
        >>> from pipeline.master.memory import MemoryMaster
        >>> import numpy as np, pyarrow as pa
        >>> R = MemoryMaster.of({b"ale": 1, b"bun": 2, b"cod": 3, b"dip": 4})
        >>> join = AutoJoin(R, memory=128_000)
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

    def __init__(self, master: Master, memory: int, options: Options = USUAL) -> None:
        size = master.statistics()
        R = relation(size, KeyCoder(master.key_type, size.key_bytes).words)
        inner = cost.inner_memory(memory, *_given(R, options))
        fetch = Fetch(master, inner, _behind(inner, memory, R, options), size)
        super().__init__(fetch, memory, options)
        fetch.chosen = self.statistics
        self._reviewed = replace(self.statistics)
        self._patience = 1

    @classmethod
    def made(cls, master: Master, memory: int, options: Options) -> Join:
        size = master.statistics()
        R = relation(size, KeyCoder(master.key_type, size.key_bytes).words)
        if cls._chosen(memory, R, options)[0] is PlainLookUps:
            return PlainLookUps.made(master, memory, options)
        return super().made(master, memory, options)

    @classmethod
    def predict(cls, memory: int, relation: Relation, options: Options) -> Prediction:
        # What is chosen, and how the memory is split, does not follow from the sales that come in the end.
        planned = options.as_planned
        if _kind(memory, relation, planned) is PlainLookUps:
            return PlainLookUps.predict(memory, relation, options)
        return cost.predict(memory, _inner_memory(memory, relation, planned), *_given(relation, options))

    @classmethod
    def least(cls, relation: Relation, options: Options) -> float:
        return PlainLookUps.least(relation, options)

    @classmethod
    def _chosen(cls, memory: int, relation: Relation, options: Options) -> tuple[type[Join], Prediction]:
        """With a cache if that promises clearly more, else without: a cache has to be filled before it pays."""
        plain = PlainLookUps.predict(memory, relation, options)
        if to_split(memory) < cost.least_of_fetch(relation) + frontstage.least_memory(relation):
            return PlainLookUps, plain
        given = _given(relation, options)
        staged = cost.predict(memory, cost.inner_memory(memory, *given), *given)
        return (AutoJoin, staged) if staged.mu > _WORTH_A_CACHE * plain.mu else (PlainLookUps, plain)

    def _merge(self) -> None:
        super()._merge()
        if self._review_is_due() and not self._pending():
            self._review()
            self._reviewed = replace(self.statistics)
            self._patience *= 2

    def _review_is_due(self) -> bool:
        return self._sales_since_review() >= self._patience * max(
            _REVIEW * self.cache.capacity, self.options.stream.batch
        )

    def _room(self) -> int:
        # The border moves when nobody waits.
        return 0 if self._review_is_due() and self._pending() else super()._room()

    def _review(self) -> None:
        """Move the border between cache and waiting sales if the stream, as seen by now, makes that worth its price."""
        fetch = self.inner
        assert isinstance(fetch, Fetch)
        stream = replace(self.options.stream, e=self._observed_exponent(), absent=self._observed_absent())
        seen = replace(self.options, stream=stream, costs=fetch.costs)
        given = _given(self.relation, seen)
        inner = cost.inner_memory(self.memory, *given)
        now, then = (cost.predict(self.memory, size, *given).mu for size in (fetch.memory, inner))
        if then > _WORTH_CHANGING * now:
            # The cached rows go too: to keep them would take both memories at once. One window brings them back.
            self.cache.clear()
            self.inner = Fetch(self.master, inner, _behind(inner, self.memory, self.relation, seen), self.size)
            self.inner.chosen = self.statistics
            self._patience = 1
            self.cache = self._make_cache()

    def _observed_exponent(self) -> float:
        """Zipf's exponent with which a cache like ours would have had the hits that it had."""
        hits = self.statistics.hits - self._reviewed.hits
        share, cached = hits / max(1, self._sales_since_review()), max(1, self.cached_rows)
        low, high = 0.0, 2.0
        for _ in range(12):
            e = (low + high) / 2
            low, high = (e, high) if Zipf(self.relation.R_t, e).share(cached) < share else (low, e)
        return low

    def _observed_absent(self) -> float:
        served = self.statistics.matched + self.statistics.unmatched
        return self.statistics.unmatched / max(1, served)

    def _sales_since_review(self) -> int:
        seen, before = self.statistics, self._reviewed
        return seen.hits + seen.misses - before.hits - before.misses

    @property
    def label(self) -> str:
        return self.name


def _given(R: Relation, options: Options) -> tuple[Relation, Stream, UnitCosts, int, int]:
    """What the cost model wants to know."""
    return R, options.stream, options.costs, options.batch, options.connections


@lru_cache(maxsize=32)
def _kind(memory: int, R: Relation, options: Options) -> type[Join]:
    return AutoJoin._chosen(memory, R, options)[0]


@lru_cache(maxsize=32)
def _inner_memory(memory: int, R: Relation, options: Options) -> int:
    return cost.inner_memory(memory, *_given(R, options))


def _behind(inner: int, memory: int, R: Relation, options: Options) -> Options:
    """The fetching stage sees only what the cache has not served."""
    h_R = frontstage.cached_rows(to_split(memory) - to_split(inner), R)
    return replace(options, stream=frontstage.passed_on(h_R, R, options.stream))
