"""How a join is put together: an algorithm, or one before another, with the model that speaks for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pipeline.joins.algorithm import Algorithm, Clock, Workplace
from pipeline.joins.cost.accounting import AS_MEASURED, Accounting
from pipeline.joins.cost.caps import Caps
from pipeline.joins.cost.question import Model, Question, Relation, Stream
from pipeline.joins.cost.unit_costs import UnitCosts
from pipeline.joins.cost.zipf import Order
from pipeline.master.port import MasterStatistics


@dataclass(frozen=True)
class Options:
    """What shapes a join beside its master and its memory."""

    costs: UnitCosts = field(default_factory=UnitCosts)
    stream: Stream = field(default_factory=Stream)  # what to expect of the sales
    planned: Stream | None = None  # what the memory was split for, if other sales came in the end
    order: Order = "scattered"  # of R, as far as it is known
    settings: Mapping[str, Any] = field(default_factory=dict)  # of algorithms, by name; else their defaults
    max_staleness: float = 300.0  # seconds: no row is served that was read longer ago
    absent_staleness: float = 10.0  # the same for the knowledge that there is no row
    connections: int = 2  # to the master
    caps: Caps = Caps()  # on what is asked of it
    clock: Clock = time.monotonic
    accounting: Accounting = AS_MEASURED  # what takes how much of the memory: another one for experiments alone


@dataclass(frozen=True)
class Recipe:
    """One name of the registry."""

    name: str
    build: Callable[[Workplace], Algorithm]
    model: Model[Any]
    main: type[Algorithm]  # whose settings and unit costs count
    needed: str  # what the least memory is for
    needs_index: bool
    keeps_rows: bool
    has_front_stage: bool = False
    has_sieve: bool = False  # there may be a filter of all keys before it
    front: str = ""  # under which name the settings of its front stage go

    def reads(self, unique: bool, indexed: bool) -> bool:
        """Whether it can work on a table whose key is unique, or has an index."""
        return not self.needs_index or unique or (indexed and self.main.takes_repeated_keys)

    @classmethod
    def of(cls, algorithm: type[Algorithm]) -> Recipe:
        """An algorithm alone."""
        return cls(
            algorithm.name,
            algorithm,
            algorithm.model,
            algorithm,
            algorithm.least_for,
            algorithm.needs_index,
            algorithm.keeps_rows,
        )

    def question(self, memory: int, R: Relation, options: Options) -> Question[Any]:
        """What the model is asked of this join with so much memory, the door's part taken off."""
        return Question(
            memory=options.accounting.to_split(memory),
            R=replace(R, order=options.order),
            stream=options.stream,
            costs=options.costs.of(self.main.name),
            settings=options.settings.get(self.main.name) or self.main.Settings(),
            offer=options.accounting.longest_offer(memory, R.words),
            connections=options.connections,
            caps=options.caps,
            planned=options.planned,
            accounting=options.accounting,
            front=options.settings.get(self.front),
        )

    def least_for(self, rows: int) -> str:
        return self.needed.format(rows=rows)


def relation(size: MasterStatistics, words: int, unique: bool) -> Relation:
    """R as the cost models see it.

    A row in a disk buffer takes its own bytes, as many again for a run of wider rows or for the copy of the matching
    rows that is handed out, its key's code, and what a match makes of it.
    """
    v_R = max(8.0, size.row_bytes)
    return Relation(R_t=size.rows, v_R=v_R, words=words, row_bytes=2 * v_R + 8 * words + 24, unique=unique)
