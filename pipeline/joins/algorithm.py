"""What a paper fills in: codes of keys come in, served sales go out. The door before it is in join.py."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.errors import BadSetting
from pipeline.joins.cost.question import Model, Question, Relation
from pipeline.joins.counts import JoinStatistics
from pipeline.joins.parts.kept import KeptRows
from pipeline.joins.parts.keycodes import Codes, KeyCoder
from pipeline.joins.parts.waiting import Places, WaitingSales
from pipeline.master.port import Master

Positions = npt.NDArray[np.int64]
Clock = Callable[[], float]

OUT_OF_TURN = 4  # fillings of a queue from which sales leave early that want the same as the oldest
ABSENT = -1  # in `Served.match`: proved not to be in R, or the sale's key was null


@dataclass(frozen=True)
class Served:
    """Sales that left a join."""

    sales: Positions  # positions as they were offered
    rows: pa.Table  # master rows: only those that matched, unless the table is kept in memory anyway
    match: Positions  # for each of `sales` its row in `rows`, or ABSENT
    absent_keys: Codes | None = None  # of the sales that are ABSENT, in order; None: not told

    def with_its_own_rows(self) -> Served:
        """Few sales must not keep a whole table of rows in memory for as long as their user has them."""
        if len(self.match) * 4 >= len(self.rows):
            return self
        match = self.match.copy()
        found = match != ABSENT
        rows, match[found] = matched_rows(self.rows, match[found])
        return replace(self, rows=rows, match=match)


@dataclass(frozen=True)
class Workplace:
    """Where an algorithm works: its master, its memory, and what is known of sales and costs."""

    master: Master
    coder: KeyCoder
    question: Question[Any]  # memory, R, sales, unit costs, the algorithm's own settings: as its model is asked
    max_staleness: float = 300.0  # seconds: no row is served that was read longer ago
    absent_staleness: float = 10.0  # the same for the knowledge that there is no row
    clock: Clock = time.monotonic
    statistics: JoinStatistics = field(default_factory=JoinStatistics)


class Algorithm(ABC):
    """One algorithm over one master table. Nothing of the stream may outlive a micro-batch; master rows may."""

    name: ClassVar[str]
    model: ClassVar[Model[Any]]  # its file of cost/
    Settings: ClassVar[type]  # a frozen class: what a user may set, [dimensions.<dimension>.<name>]
    least_for: ClassVar[str]  # what the least memory is needed for
    needs_index: ClassVar[bool] = True  # on R's key, and a unique one: False only for those that scan all of R
    takes_repeated_keys: ClassVar[bool] = False  # it needs an index, but not a unique one
    keeps_rows: ClassVar[bool] = False  # from one micro-batch to the next, for up to `max_staleness`
    rows_probe: ClassVar[bool] = False  # the rows it keeps are looked up in H, not the sales that come in among them
    settles_in: int = 1  # fillings of its queue, until it serves as it will from then on
    asks_by_key: bool = True  # False: never needs a waiting sale's key again, only its code

    def __init__(self, workplace: Workplace) -> None:
        self.master, self.coder, self.statistics = workplace.master, workplace.coder, workplace.statistics
        self.workplace = workplace
        self.question = workplace.question
        self.asked_at = workplace.clock()  # when the master was asked for the rows that `iterate` handed out last

    @property
    @abstractmethod
    def room(self) -> int:
        """How many sales could be admitted now."""

    @abstractmethod
    def admit(self, positions: Positions, codes: Codes) -> int:
        """Take sales, at most as many as there was room for, from the front; say how many."""

    @abstractmethod
    def iterate(self, drain: bool) -> list[Served]:
        """One iteration of the paper's outer loop. `drain`: no more sales come before all these are served."""

    @property
    @abstractmethod
    def pending(self) -> int:
        """Sales admitted and not yet served."""

    def finished(self, positions: Positions) -> npt.NDArray[np.bool_]:
        """Which of these sales, admitted before, have come out with all rows of their keys.

        Asked only where a key may have many rows, and while some sale is pending.
        """
        raise NotImplementedError(f"{self.name} reads no table where a key may have many rows")

    def waiting_with(self, codes: Codes) -> npt.NDArray[np.int64]:
        """How many sales wait for each of these keys, after others were proved to have no row."""
        return np.zeros(len(codes), np.int64)

    @property
    def kept(self) -> tuple[KeptRows, ...]:
        """What keeps master rows from one micro-batch to the next."""
        return ()

    @abstractmethod
    def memory_used(self) -> dict[str, int]:
        """Bytes in use by part."""

    @abstractmethod
    def check(self) -> None:
        """Assert every invariant."""

    @property
    def seen(self) -> Question[Any]:
        """What its model would be asked now, with costs and sales as it has seen them."""
        return self.question

    @property
    def R(self) -> Relation:
        return self.question.R

    def absent(self, positions: Positions, codes: Codes | None = None) -> Served:
        """Sales proved to have no master row; with their keys, so that a front stage can remember it."""
        match = np.full(len(positions), ABSENT, np.int64)
        return Served(positions, self.master.schema.empty_table(), match, codes)

    def codes_of(self, rows: pa.Table) -> Codes:
        """The keys of master rows."""
        return self.coder.encode(rows["key"].combine_chunks(), remember=False)

    def leave(self, waiting: WaitingSales, sales: Places, rows: pa.Table) -> list[Served]:
        """These sales go: with their row, or because these rows prove that there is none."""
        match = waiting.rows_of(sales, self.codes_of(rows))
        found, missing = match >= 0, sales[match < 0]
        absent = self.absent(waiting.positions[missing], waiting.codes(missing))
        matched = Served(waiting.positions[sales[found]], rows, match[found])
        waiting.release(sales)
        return [piece for piece in (matched, absent) if len(piece.sales)]


def matched_rows(rows: pa.Table, numbers: npt.NDArray[np.int32]) -> tuple[pa.Table, Positions]:
    """Only the rows that matched, once each, and the old numbers turned into numbers of these."""
    matched = np.zeros(len(rows), np.bool_)
    matched[numbers] = True
    used = np.flatnonzero(matched)
    if len(used) == len(rows):
        return rows, numbers.astype(np.int64)
    return rows.take(pa.array(used)).combine_chunks(), (np.cumsum(matched) - 1)[numbers]


def by_sale(served: list[Served], sales: int, schema: pa.Schema) -> tuple[Positions | None, Positions, pa.Table]:
    """Bring what was served, in whatever order, back to the order of the sales.

    Returns which sale stands in each row (None: each exactly once, in place), its row among the master rows, and those.
    """
    tables: dict[int, pa.Table] = {}  # a front stage serves many times from one and the same table
    first_row: dict[int, int] = {}
    for piece in served:
        if id(piece.rows) not in tables:
            first_row[id(piece.rows)] = sum(map(len, tables.values()))
            tables[id(piece.rows)] = piece.rows
    rows = pa.concat_tables([schema.empty_table(), *tables.values()]).combine_chunks()
    at = np.concatenate([np.empty(0, np.int64), *(piece.sales for piece in served)])
    match = np.concatenate(
        [
            np.empty(0, np.int64),
            *(np.where(p.match == ABSENT, ABSENT, p.match + first_row[id(p.rows)]) for p in served),
        ]
    )
    order = np.argsort(at, kind="stable")
    in_place = len(at) == sales and bool((at[order] == np.arange(sales)).all())
    return (None if in_place else at[order]), match[order], rows


def at_least(least: int, **settings: int) -> None:
    """Refuse settings of an algorithm that are smaller.

    >>> at_least(1, batch=0)
    Traceback (most recent call last):
    pipeline.errors.BadSetting: batch = 0 must be at least 1.
    """
    for name, value in settings.items():
        if value < least:
            raise BadSetting(f"{name} = {value} must be at least {least}.", about=[name])


def one_of(known: tuple[object, ...], **settings: object) -> None:
    """Refuse settings of an algorithm that are none of these.

    >>> one_of((1, 2), buffers=3)
    Traceback (most recent call last):
    pipeline.errors.BadSetting: buffers = 3 must be one of: 1, 2.
    """
    for name, value in settings.items():
        if value not in known:
            raise BadSetting(f"{name} = {value!r} must be one of: {', '.join(map(repr, known))}.", about=[name])
