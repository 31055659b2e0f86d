"""One point of an experiment: everything that shapes what is measured there. The same point, the same result.

The names are those of the experiment files; `deploy/docs/experiments.md` tells what each means.
"""

from __future__ import annotations

import hashlib
from typing import Any, Literal

import msgspec

from pipeline.bench.workload.data import data_of
from pipeline.bench.workload.sources import Data
from pipeline.config.measures import Bytes
from pipeline.master.computed import ComputedRows

Size = int | float | str  # bytes, "20 MB", or "5 %" of R


class _Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Refuses what it does not know."""


class Sales(_Strict, frozen=True, kw_only=True):
    """What comes."""

    skew: float | None = None  # z_S, e; None: as the data has it
    absent: float = 0.0


class WarmUp(_Strict, frozen=True, kw_only=True):
    """What happens before anything counts."""

    cycles: float = 1.0  # over R, of a join that scans
    sales: int = 0
    sales_a_cached_row: int = 100


class Arrivals(_Strict, frozen=True, kw_only=True):
    """Sales come at a rate of their own, instead of always waiting for the join."""

    rate: float
    seconds: float
    warm_up: float = 0.0
    law: Literal["even", "bursty"] = "bursty"
    streams: int = 10


class Search(_Strict, frozen=True, kw_only=True):
    """The point is not one size but the best of many."""

    size: Literal["buffer", "memory"]
    least: Size
    most: Size
    steps: int = 9
    rate: float = 0.0  # of `memory`: the least with which so many sales are served


class Curve(_Strict, frozen=True, kw_only=True):
    """One run gives all of x: what is told of it in each of these places."""

    of: str  # a name of pipeline/bench/charged/curves.py
    at: tuple[float, ...]


class Point(_Strict, frozen=True, kw_only=True):
    """Everything that shapes what is measured at one place of a figure."""

    machine: str
    R: dict[str, Any]  # `of`, a name of sources.py, and what that takes
    indexed: bool = True
    chained: bool = False  # a key's rows lie on pages anywhere
    sales: Sales = Sales()
    join: str = ""  # none: only sales are looked at
    settings: dict[str, Any] = {}
    memory: Size = 0
    # How that is counted; a table: as published, but for these.
    accounting: Literal["as published", "as measured"] | dict[str, float] = "as published"
    pool: Size = 0  # the page pool behind look-ups
    buffer: Size = 0  # a join's b or d, told in bytes of rows; 0: as its settings say
    warm_up: WarmUp = WarmUp()
    length: int = 1  # sales that count, at least
    arrivals: Arrivals | None = None
    search: Search | None = None
    curve: Curve | None = None

    @property
    def data(self) -> Data:
        return data_of(self.R, self.sales.skew)

    @property
    def rows(self) -> ComputedRows:
        return self.data.rows

    def nbytes(self, size: Size) -> int:
        """A size in bytes; a share is of R.

        >>> point = Point(machine="", R={"rows": 1_000})
        >>> point.nbytes("5 %"), point.nbytes("20 MB"), point.nbytes(7)
        (6000, 20000000, 7)
        """
        if not isinstance(size, str):
            return int(size)
        if size.endswith("%"):
            return round(float(size[:-1]) / 100 * self.rows.rows * self.rows.row_bytes)
        return Bytes.parse(size)

    @property
    def memory_bytes(self) -> int:
        return self.nbytes(self.memory)

    @property
    def pool_bytes(self) -> int:
        return self.nbytes(self.pool)

    @property
    def buffer_rows(self) -> int:
        """b of the papers, in rows; 0: not set by hand."""
        size = self.nbytes(self.buffer)
        return max(1, round(size / self.rows.row_bytes)) if size else 0

    @property
    def definition(self) -> str:
        """A short name of all of this; two points with the same one are one and the same."""
        whole = msgspec.json.encode(msgspec.to_builtins(self), order="sorted")
        return hashlib.sha256(whole).hexdigest()[:16]
