"""What `partitioned` and `ssij` ask of the master when a slot's turn has come: its page, or its keys by name."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from pipeline.joins.cost.lookups import NOTHING, Floats
from pipeline.joins.cost.question import Question
from pipeline.joins.cost.slot_blocks import BlocksOfPages
from pipeline.joins.cost.slot_simulation import Pages, Turns
from pipeline.joins.cost.unit_costs import UnitCosts
from pipeline.joins.cost.zipf import Zipf

_CURVE = 24  # numbers of sales for which the different keys among them are reckoned; between them they lie on a line


class Slots(Protocol):
    """What is to be known of a split."""

    @property
    def d(self) -> int: ...

    @property
    def k(self) -> int: ...

    @property
    def h_S(self) -> int: ...

    @property
    def b(self) -> int: ...

    @property
    def h_R(self) -> int: ...

    @property
    def reads_pages(self) -> bool: ...


@dataclass(frozen=True)
class Asked:
    """For each turn, on average."""

    reads: Floats  # of its page: one or none
    beside: Floats  # keys that are named with it
    named: Floats  # keys asked for in queries of their own
    queries: Floats  # of these


@dataclass(frozen=True)
class Asking:
    """Queries, rows and seconds of turns."""

    parts: Slots
    question: Question[object]

    def queries(self, turns: Turns) -> Floats:
        """Each a step of the join."""
        asked = self._asked(turns)
        return asked.reads + asked.queries

    def costs(self, turns: Turns) -> tuple[float, float, float]:
        """Of all turns: queries, rows, seconds."""
        parts, costs, asked = self.parts, self.question.costs, self._asked(turns)
        of_a_page = costs.page(parts.d) + parts.d * (costs.c_H + (costs.c_A if parts.h_R else 0.0))
        seconds = asked.reads * of_a_page + asked.beside * costs.beside + asked.queries * costs.lookup.request
        rows = asked.reads * parts.d
        if not parts.reads_pages:
            rows += asked.named * (1 - self.question.stream.absent)
        of_all = [float((turns.times * each).sum()) for each in (asked.reads + asked.queries, rows, seconds)]
        return of_all[0], of_all[1], of_all[2] + self._by_name(asked, turns)

    def _asked(self, turns: Turns) -> Asked:
        parts = self.parts
        absent, found = self._keys(turns.page, np.stack([turns.absent, turns.sales - turns.absent]))
        keys = absent + found
        if not parts.reads_pages:
            return Asked(np.zeros_like(keys), np.zeros_like(keys), keys, np.ceil(np.rint(keys) / parts.b))
        reads = np.where(turns.kept, 0.0, 1.0)
        beside = np.where(turns.kept | (np.rint(keys) > few_keys(self.question.costs)), 0.0, keys)
        # Too many to name them all in the page's query: those that stayed unmatched are asked for afterwards.
        named = np.where(beside > 0, 0.0, absent)
        return Asked(reads, beside, named, np.ceil(np.rint(named) / parts.b))

    def _by_name(self, asked: Asked, turns: Turns) -> float:
        """Seconds of the keys that have queries of their own: all but a turn's last one are for b keys."""
        parts, costs = self.parts, self.question.costs
        if not costs.blocks:
            return costs.by_name(float((turns.times * asked.named).sum()), NOTHING)
        full = np.maximum(0.0, asked.queries - 1)
        sales = float((turns.times * turns.sales).sum() / turns.times.sum())
        of_pages = BlocksOfPages(self._zipf, parts.d, self.question.R.order, costs.blocks, sales)
        last = of_pages.touched(turns.page, asked.named - full * parts.b, turns.times)
        others = of_pages.touched(turns.page, np.full_like(full, parts.b), turns.times * full)
        return costs.by_name(0.0, last + others)

    @property
    def _zipf(self) -> Zipf:
        return self.question.stream.over(self.question.R)

    def _keys(self, pages: Pages, sales: Floats) -> Floats:
        """Different ones, among so many sales for each of these pages."""
        numbers, keys = self._curves
        at = np.minimum(np.maximum(np.searchsorted(numbers, sales), 1), len(numbers) - 1)
        share = (sales - numbers[at - 1]) / (numbers[at] - numbers[at - 1])
        fewer, more = keys[at - 1, pages], keys[at, pages]
        different: Floats = fewer + (more - fewer) * share
        return different

    @cached_property
    def _curves(self) -> tuple[Floats, Floats]:
        parts, order = self.parts, self.question.R.order
        numbers = np.concatenate([[0.0], np.geomspace(1, max(2, parts.h_S), _CURVE)])
        return numbers, np.array([self._zipf.keys_on_pages(float(n), parts.k, order) for n in numbers])


def few_keys(costs: UnitCosts) -> int:
    """Keys that may be named in a page's query: more of them cost more than a query of their own."""
    return max(1, int(costs.lookup.request / costs.lookup.item))
