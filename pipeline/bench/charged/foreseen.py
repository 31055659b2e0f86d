"""What the cost models foresee beside what the charged machines measure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pipeline.bench.charged.machines import Machine
from pipeline.bench.charged.trial import Trial
from pipeline.errors import BudgetTooSmall
from pipeline.master.computed import ComputedRows

_FILLS = 8  # times what fills the join is served before anything is counted, and while it is
_FEWEST, _MOST = 10_000, 2_000_000  # sales, for so many reads


@dataclass(frozen=True)
class Case:
    """One cell of a grid: a join, its R, its sales, its memory."""

    join: str
    rows: int
    scattered: bool
    skew: float
    share: float  # of R, that the memory is
    absent: float = 0.0
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        order = "scattered" if self.scattered else "sorted"
        own = "".join(f" {own}" for own in self.settings.values())
        where = f"{self.rows:>9,} {order:<9} {self.skew:<3} {self.share * 100:>4.1f} % {self.absent:<3}"
        return f"{self.join:<26} {where}{own}"


@dataclass(frozen=True)
class Pair:
    """A number, foreseen and measured."""

    foreseen: float
    measured: float

    @property
    def ratio(self) -> float:
        """
        >>> Pair(9.0, 10.0).ratio
        0.9
        """
        return self.foreseen / self.measured if self.measured else float(self.foreseen == 0) or float("inf")


@dataclass(frozen=True)
class Compared:
    """A case's service rate, mean processing time, and queries of the master for each sale."""

    case: Case
    rate: Pair
    processing_time: Pair
    queries: Pair

    def __str__(self) -> str:
        told = (
            f"{self.rate.foreseen:>11,.0f} {self.rate.measured:>11,.0f} {self.rate.ratio:>5.2f}",
            f"{self.processing_time.foreseen:>9.4f} {self.processing_time.measured:>9.4f} "
            f"{self.processing_time.ratio:>5.2f}",
            f"{self.queries.foreseen:>9.2e} {self.queries.measured:>9.2e} {self.queries.ratio:>5.2f}",
        )
        return f"{self.case}  {'  '.join(told)}"


def compare(case: Case, machine: Machine, row_bytes: int = 120, seed: int = 1, reads: int = 1_000) -> Compared | None:
    """Run a case; None: so much memory is too little for this join. About so many reads are counted at least."""
    rows = ComputedRows(case.rows, row_bytes, scattered=case.scattered)
    memory = int(case.rows * row_bytes * case.share)
    try:
        trial = Trial(case.join, rows, memory, machine, case.skew, case.absent, seed, settings=case.settings)
    except BudgetTooSmall:
        return None
    foreseen = trial.prediction
    fills = _FILLS * int(foreseen.parameters.get("h_S", 0))
    of_reads = int(reads * foreseen.mu / foreseen.queries) if foreseen.queries else 0
    sales = max(_FEWEST, fills, min(of_reads, _MOST))
    return Compared(case, *beside(trial, sales))


def beside(trial: Trial, sales: int) -> tuple[Pair, Pair, Pair]:
    """Service rate, mean processing time, and queries for each sale, over at least so many sales behind as many."""
    foreseen = trial.prediction
    trial.warm_up(sales=sales, sales_a_cached_row=20)
    seen = trial.measure(sales)
    asked = sum(seen.reads.by_kind[kind].queries for kind in ("scan", "page", "lookup"))
    return (
        Pair(foreseen.mu, seen.rate),
        Pair(foreseen.processing_time, float(seen.processing.mean())),
        Pair(foreseen.queries / foreseen.mu, asked / seen.sales),
    )


def grid(
    names: tuple[str, ...], rows: tuple[int, ...], shares: tuple[float, ...], skews: tuple[float, ...], **more: Any
) -> Iterator[Case]:
    """Every combination, R in both orders."""
    for name in names:
        for number in rows:
            for scattered in (True, False):
                for skew in skews:
                    for share in shares:
                        yield Case(name, number, scattered, skew, share, **more)
