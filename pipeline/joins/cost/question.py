"""What every cost model is asked: so much memory, this R, these sales, these costs, the algorithm's own settings."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

from pipeline.joins.cost.accounting import AS_MEASURED, Accounting
from pipeline.joins.cost.caps import Caps
from pipeline.joins.cost.prediction import Prediction
from pipeline.joins.cost.results import UNKNOWN, Results
from pipeline.joins.cost.unit_costs import UnitCosts
from pipeline.joins.cost.zipf import Order, Zipf
from pipeline.joins.parts.budget import LONGEST_OFFER

SettingsOf = TypeVar("SettingsOf", covariant=True)
Asked = TypeVar("Asked", contravariant=True)


@dataclass(frozen=True)
class Relation:
    """R, as a model sees it."""

    R_t: int  # rows
    v_R: float  # bytes of a row in Arrow
    words: int  # of a key's code, 8 bytes each
    row_bytes: float  # of a row in a disk buffer, with all that is made of it there
    unique: bool = True  # a key has one row
    order: Order = "scattered"  # where the rows lie that are wanted most


@dataclass(frozen=True)
class Stream:
    """S, as a model sees it."""

    e: float = 1.0  # exponent of the keys' Zipf distribution
    batch: int = 125_000  # sales of one window: after each, nothing may be pending
    absent: float = 0.0  # share of sales without a master row
    beyond: float = 0.0  # so many of the most wanted rows are served before, by a front stage
    life: float = math.inf  # so many sales come while a cached row is young enough; then it is asked for again
    results: Results = UNKNOWN  # of sales that are not absent, where keys repeat in R; a job cannot know, and takes one
    absent_life: float = 0.0  # so many sales come while it is still known that a key has no row; 0: that is not kept
    by_integral: bool = False  # how the ranks of the keys were drawn: see Zipf

    def over(self, relation: Relation) -> Zipf:
        """How these sales are distributed over the rows of R."""
        return Zipf(relation.R_t, self.e, self.beyond, self.life, self.by_integral)

    def keys(self, sales: float, relation: Relation) -> float:
        """The distinct keys that so many sales have; those without a row are as unequally wanted as the others."""
        zipf = self.over(relation)
        return zipf.distinct(sales * (1 - self.absent)) + zipf.distinct(sales * self.absent)

    def hits(self, h_R: float, relation: Relation) -> float:
        """The share of the sales that a cache of the h_R most wanted keys serves: they have not grown too old."""
        rows, absences = self.cached(h_R, relation)
        found = self.results.hits(rows) if self.results else self.over(relation).share(rows, self.life)
        return found * (1 - self.absent) + self.hits_absent(absences, relation)

    def hits_absent(self, absences: float, relation: Relation) -> float:
        """Those of them that learn that there is no row."""
        return self.over(relation).share(absences, self.absent_life) * self.absent if absences else 0.0

    def cached(self, h_R: float, relation: Relation) -> tuple[float, float]:
        """How many rows, and absences, are among the h_R keys wanted most: the x-th of each is wanted like 1 / x**e."""
        if not self.absent or not self.absent_life:
            return h_R, 0.0
        if self.absent == 1:
            return 0.0, h_R
        ratio = (self.absent / (1 - self.absent)) ** (1 / max(self.e, 1e-2))
        rows = min(float(relation.R_t), h_R / (1 + ratio))
        return rows, min(float(relation.R_t), h_R - rows)


@dataclass(frozen=True)
class Question(Generic[SettingsOf]):
    """One question to a model; hashable, so that an answer can be remembered."""

    memory: int  # bytes that the algorithm may split
    R: Relation
    stream: Stream  # the sales that come
    costs: UnitCosts
    settings: SettingsOf  # of the algorithm
    offer: int = LONGEST_OFFER  # most sales that come in at once
    connections: int = 2  # to the master
    caps: Caps = Caps()  # on what is asked of it
    # Seconds that a front stage works for each sale that it passes on: when sales come in, and with the next read.
    beside: tuple[float, float] = (0.0, 0.0)
    fed: float = math.inf  # most sales that come in for an iteration: behind a front stage, which holds its hits
    planned: Stream | None = None  # what the memory was split for, if other sales came in the end
    front: Any = None  # settings of a front stage before the algorithm; None: all as its cost model finds best
    accounting: Accounting = AS_MEASURED  # what takes how much of the memory

    @property
    def as_planned(self) -> Question[SettingsOf]:
        """What the memory is split by."""
        return self if self.planned is None else replace(self, stream=self.planned, planned=None)


class Model(Protocol[Asked]):
    """A file of this folder, or an object that answers like one."""

    def least(self, question: Question[Asked]) -> int:
        """The bytes without which the algorithm cannot work, whatever memory the question has."""
        ...

    def split(self, question: Question[Asked]) -> Any:
        """How the algorithm divides its memory."""
        ...

    def predict(self, question: Question[Asked]) -> Prediction:
        """What comes of it."""
        ...
