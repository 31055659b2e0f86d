"""What a row of the table of metrics is made of, and where in a committed batch its series are found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from pipeline.answers.histogram import Histogram
from pipeline.answers.task import DimensionAnswer, TaskAnswer
from pipeline.master.port import ReadCount

Labels = tuple[str, ...]
K = TypeVar("K", bound=str)
T = TypeVar("T")
V = TypeVar("V")


@dataclass(frozen=True)
class Committed:
    """One batch that is in the tables."""

    answer: TaskAnswer
    at: float  # Unix time of the commit
    batch: int


Found = Callable[[Committed], Mapping[Labels, V]]


@dataclass(frozen=True)
class Family(Generic[V]):
    """One metric: all series of a name."""

    name: str
    labels: Labels
    meaning: str
    found: Found[V]
    merged: Callable[[V, V], V]  # what was known with what the batch says
    from_start: tuple[Labels, ...] = ()  # series that are there at zero: one that comes with its first event hides it
    replaced: bool = False  # of a dimension only the series stay that its newest batch has


@dataclass(frozen=True)
class Table:
    """All metrics that one process publishes, by their names."""

    counters: dict[str, Family[float]]
    gauges: dict[str, Family[float]]
    histograms: dict[str, Family[Histogram]]


def each(things: Callable[[Committed], Iterable[tuple[Labels, T]]], of: Callable[[T], V | None]) -> Found[V]:
    """A series for each of these things; None: the batch does not say."""
    return lambda done: {labels: value for labels, thing in things(done) if (value := of(thing)) is not None}


def batch(done: Committed) -> Iterable[tuple[Labels, Committed]]:
    return [((), done)]


def dimensions(done: Committed) -> Iterable[tuple[Labels, DimensionAnswer]]:
    return [((name,), dimension) for name, dimension in done.answer.dimensions.items()]


def joins(done: Committed) -> Iterable[tuple[Labels, DimensionAnswer]]:
    return [((name, dimension.algorithm), dimension) for name, dimension in done.answer.dimensions.items()]


def reads(done: Committed) -> Iterable[tuple[Labels, ReadCount]]:
    return [((*of, kind), read) for of, join in dimensions(done) for kind, read in join.reads.by_kind.items()]


def by(counts: Callable[[TaskAnswer], Mapping[K, float]]) -> Found[float]:
    """A series for each entry: topics, reasons, phases."""
    return lambda done: {(key,): value for key, value in counts(done.answer).items()}


def by_dimension_and(counts: Callable[[DimensionAnswer], Mapping[str, float]]) -> Found[float]:
    """As `by`, in each dimension."""
    return lambda done: {(*of, key): value for of, join in dimensions(done) for key, value in counts(join).items()}


def by_join_and(counts: Callable[[DimensionAnswer], Mapping[str, float]]) -> Found[float]:
    """As `by`, in each dimension under the name of its algorithm."""
    return lambda done: {(*of, key): value for of, join in joins(done) for key, value in counts(join).items()}


def nowhere(_: Committed) -> Mapping[Labels, float]:
    """No batch knows it: `publish.Metrics` is told by who does."""
    return {}
