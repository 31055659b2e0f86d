"""What the cost models expect of every join on the user's own tables, side by side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pipeline import joins
from pipeline.errors import BudgetTooSmall
from pipeline.joins import JOINS
from pipeline.joins.base import Options, relation
from pipeline.joins.cost.units import Prediction, Relation
from pipeline.joins.parts.keycodes import KeyCoder
from pipeline.master.port import Master
from pipeline.plan import Plan

# Those with a front stage before them that are worth a line of their own; auto and cmeshjoin have one.
_STAGED = ("inlj", "hybridjoin")
_MOST_MEMORY = 1 << 36


@dataclass(frozen=True)
class Forecast:
    """One line of the table: a join as it would be with the dimension's memory."""

    name: str
    prediction: Prediction | None  # None: it cannot work within that memory
    least: int  # the memory it needs at all
    enough: int | None  # the least memory for the rate asked for; None: no memory is enough
    chosen: bool  # by the settings


def forecasts(plan: Plan, dimension: str, master: Master, rate: float) -> list[Forecast]:
    """Every join on this dimension's table, the registry's order."""
    settings, options = plan.settings.dimensions[dimension], plan.options(dimension)
    size = master.statistics()
    R = relation(size, KeyCoder(master.key_type, size.key_bytes).words)
    chosen = (settings.algorithm, settings.front_stage)
    return [
        _forecast(name, staged, R, options, settings.memory, rate, (name, staged) == chosen)
        for name, staged in _variants(chosen)
        if master.unique or not JOINS[name].needs_index
    ]


def queue_wait(prediction: Prediction, rate: float, period: float) -> float | None:
    """Mean seconds from Kafka until the join admits the sale, with `rate` sales a second and a batch every `period`.

    Half a period until the batch begins, and half of the time the batch takes. None: the backlog would grow for ever.
    """
    busy = rate / prediction.mu
    return None if busy >= 1 else period / 2 * (1 + busy)


def memory_for_rate(name: str, staged: bool, R: Relation, options: Options, rate: float) -> int | None:
    """The least memory with which a join reaches a rate: the other tuning question."""

    def reaches(memory: int) -> bool:
        return joins.predict(name, memory, R, options, staged).mu >= rate

    few = joins.least_memory(name, R, options, staged)
    many = few
    while not reaches(many):
        few, many = many, 2 * many
        if many > _MOST_MEMORY:
            return None
    while many - few > max(1_024, few // 50):
        middle = (few + many) // 2
        few, many = (few, middle) if reaches(middle) else (middle, many)
    return many


def _variants(chosen: tuple[str, bool]) -> Iterator[tuple[str, bool]]:
    for name in JOINS:
        yield name, False
        if name in _STAGED or (name, True) == chosen:
            yield name, True


def _forecast(
    name: str, staged: bool, R: Relation, options: Options, memory: int, rate: float, chosen: bool
) -> Forecast:
    least = joins.least_memory(name, R, options, staged)
    prediction = None
    if memory >= least:
        try:
            prediction = joins.predict(name, memory, R, options, staged)
        except BudgetTooSmall:
            prediction = None
    label = f"front stage + {name}" if staged else name
    return Forecast(label, prediction, least, memory_for_rate(name, staged, R, options, rate) if rate else None, chosen)
