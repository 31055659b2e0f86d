"""What the cost models expect of every join on the user's own tables, side by side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from pipeline import joins
from pipeline.advise.demand import Demand
from pipeline.joins import JOINS, Options, relation
from pipeline.joins.cost import cache_rule
from pipeline.joins.cost.cache_rule import LeastMemory
from pipeline.joins.cost.prediction import Prediction
from pipeline.joins.cost.question import Relation
from pipeline.joins.parts.keycodes import KeyCoder
from pipeline.master.port import Master
from pipeline.plan import Plan

# Those with a front stage before them that are worth a line of their own; auto, cmeshjoin and cachejoin have one.
_STAGED = ("inlj",)
_MOST_MEMORY = 1 << 36
_FINE_ENOUGH = 1.05  # the least memory for a rate is told to this ratio


@dataclass(frozen=True)
class Forecast:
    """One line of the table: a join as it would be with the dimension's memory."""

    name: str  # in the registry
    chosen: bool  # by the settings
    least: int  # the memory it needs at all
    needs_index: bool = False  # and the table has none
    prediction: Prediction | None = None  # at the rate; None: it cannot work on this table, or within its memory
    seconds: float = 0.0  # of a worker for a sale, the whole way with this join and the others as they are set
    enough: int | None = None  # the least memory with which the job reaches the rate; None: no memory is enough


@dataclass(frozen=True)
class Table:
    """A dimension's table and what is asked of it."""

    plan: Plan
    dimension: str
    relation: Relation
    indexed: bool  # by its natural key, uniquely or not
    demand: Demand

    @classmethod
    def of(cls, plan: Plan, dimension: str, master: Master, demand: Demand) -> Table:
        size = master.statistics()
        R = relation(size, KeyCoder(master.key_type, size.key_bytes).words, master.unique)
        return cls(plan, dimension, R, master.indexed, demand)

    def chosen_rate(self) -> float:
        """The service rate of the join that the settings name, with full windows; 0: it cannot work."""
        name, settings = self.plan.join(self.dimension), self.plan.settings.dimensions[self.dimension]
        found = None if self._lacks_index(name) else self._predict(name, settings.memory, self.demand.full_window)
        return found.mu if found else 0.0

    def chosen(self, others: float) -> Prediction | None:
        """What is expected at the rate of the join that the settings name; None: it cannot work."""
        rate, settings = self.chosen_rate(), self.plan.settings.dimensions[self.dimension]
        if not rate:
            return None
        window = self.demand.window_of(others + 1 / rate)
        return self._predict(self.plan.join(self.dimension), settings.memory, window)

    def forecasts(self, others: float) -> Iterator[Forecast]:
        """Every join on this table, the registry's order; `others`: seconds a sale takes of a worker beside it."""
        memory, chosen = self.plan.settings.dimensions[self.dimension].memory, self.plan.join(self.dimension)
        for name in _variants(chosen):
            least = joins.least_memory(name, self.relation, self._options(self.demand.full_window))
            line = Forecast(name, name == chosen, least)
            if self._lacks_index(name):
                yield replace(line, needs_index=True)
                continue
            line = replace(line, enough=self._memory_for_rate(name, others))
            full = self._predict(name, memory, self.demand.full_window)
            if full is not None:
                seconds = others + 1 / full.mu
                usual = self._predict(name, memory, self.demand.window_of(seconds))
                line = replace(line, prediction=usual, seconds=seconds)
            yield line

    def best_hits(self) -> float:
        """The share of the sales that any rule of rows in memory can serve at most, were all memory rows."""
        memory = self.plan.settings.dimensions[self.dimension].memory
        return cache_rule.best_hits(memory, self.relation, self._options(self.demand.full_window).stream)

    def least_memory(self, others: float) -> LeastMemory:
        """Of any join, for the rate; `others`: as for `forecasts`."""
        left, options = self.demand.seconds_left(others), self._options(self.demand.full_window)
        if left <= 0:
            return LeastMemory(None, None)
        return cache_rule.least_memory(1 / left, self.relation, options.stream, options.costs)

    def _lacks_index(self, name: str) -> bool:
        return not joins.recipe(name).reads(self.relation.unique, self.indexed)

    def _options(self, window: int) -> Options:
        """The join as the job makes it, with the windows and the repeated reads that come of the rate."""
        options = self.plan.options(self.dimension)
        life = self.demand.served / self.demand.workers * options.max_staleness
        stream = replace(options.stream, batch=window, life=max(1.0, life))
        return replace(options, stream=stream, planned=options.stream)

    def _predict(self, name: str, memory: int, window: int) -> Prediction | None:
        options = self._options(window)
        if memory < joins.least_memory(name, self.relation, options):
            return None
        return joins.predict(name, memory, self.relation, options)

    def _memory_for_rate(self, name: str, others: float) -> int | None:
        left = self.demand.seconds_left(others)
        if left <= 0:
            return None
        return memory_for_rate(name, self.relation, self._options(self.demand.full_window), 1 / left)


def chosen_rates(tables: dict[str, Table]) -> dict[str, float]:
    """The service rates of the joins that the settings name."""
    return {name: table.chosen_rate() for name, table in tables.items()}


def beside(dimension: str, rates: dict[str, float], demand: Demand) -> float:
    """Seconds of a worker for each sale without the join of this dimension."""
    return demand.seconds(rate for name, rate in rates.items() if name != dimension)


def memory_for_rate(name: str, R: Relation, options: Options, rate: float) -> int | None:
    """The least memory with which a join reaches a service rate: the other tuning question."""

    def reaches(memory: float) -> bool:
        return joins.predict(name, int(memory), R, options).mu >= rate

    few = many = float(joins.least_memory(name, R, options))
    while not reaches(many):
        few, many = many, 4 * many
        if many > _MOST_MEMORY:
            return None
    while many > _FINE_ENOUGH * few and many - few > 1_024:
        middle = (few * many) ** 0.5
        few, many = (few, middle) if reaches(middle) else (middle, many)
    return int(many)


def _variants(chosen: str) -> Iterator[str]:
    for name in JOINS:
        yield name
        if name in _STAGED or (not JOINS[name].has_front_stage and joins.with_front_stage(name) == chosen):
            yield joins.with_front_stage(name)
