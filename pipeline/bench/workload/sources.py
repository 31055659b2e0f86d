"""The data of the papers' experiments: an R that is computed, and the law by which its keys are asked for.

Named as an experiment's file names them, each with parameters of its own. What the papers took from elsewhere (TPC-H,
weather) is made here, and nothing is stored: see laws.py for what is like the original in it, and what is not.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pipeline.bench.workload.laws import Draws, Orders, weather
from pipeline.errors import BadSetting
from pipeline.generate.zipf import ZipfDraw
from pipeline.master.computed import ComputedRows

_CUSTOMERS = 150_000  # TPC-H, specification 4.2.5: so many times the scale factor, and 179 bytes a row
_CUSTOMER_BYTES = 179


@dataclass(frozen=True)
class Data:
    """R and S of an experiment."""

    rows: ComputedRows
    law: Draws  # of what the sales ask for
    skew: float  # what a cost model is told of it: an exponent of Zipf's law


def synthetic(rows: int, row_bytes: int = 120, skew: float = 1.0, scattered: bool = False, seed: int = 0) -> Data:
    """All papers': each key once in R, and sales by Zipf's law. R is sorted by how much its rows are wanted, or not."""
    table = ComputedRows(rows, row_bytes, scattered=scattered, seed=seed)
    return Data(table, ZipfDraw(rows, skew), skew)


def repeating(
    rows: int,
    domain: int,
    skew_of_R: float,
    skew: float = 0.5,
    row_bytes: int = 120,
    scattered: bool = False,
    seed: int = 0,
) -> Data:
    """MESHJOIN's figure 6c: keys repeat in R by a law of its own. Which comes most in R is wanted most by the sales.

    The paper does not say that; were the two orders independent, a sale would have one row in the mean at any skew.
    """
    table = ComputedRows(rows, row_bytes, ZipfDraw(domain, skew_of_R), scattered, seed)
    return Data(table, ZipfDraw(domain, skew), skew)


def tpch(scale: float, skew: float | None = None, row_bytes: int = _CUSTOMER_BYTES, seed: int = 0) -> Data:
    """TPC-H: R is Customer by C_CUSTKEY, S is Orders by O_CUSTKEY as dbgen draws it, or with a skew that it has not."""
    table = ComputedRows(round(scale * _CUSTOMERS), row_bytes)
    return Data(table, Orders(table.rows, skew, seed), skew or 0.0)


def like_weather(rows: int, row_bytes: int = 32, scattered: bool = True, seed: int = 0) -> Data:
    """Reports of two months by the same stations, joined by longitude, many to many."""
    law = weather(seed)
    return Data(ComputedRows(rows, row_bytes, law, scattered, seed), law, 0.0)


SOURCES: dict[str, Callable[..., Data]] = {
    "synthetic": synthetic,
    "repeating": repeating,
    "tpch": tpch,
    "weather-like": like_weather,
}


def of(name: str, **parameters: Any) -> Data:
    """The data of this name.

    >>> data = of("tpch", scale=1)
    >>> data.rows.rows, data.rows.unique
    (150000, True)
    """
    if name not in SOURCES:
        raise BadSetting(f'data = "{name}": there are {", ".join(SOURCES)}.', about=["data"])
    taken = inspect.signature(SOURCES[name]).parameters
    if strange := parameters.keys() - taken:
        raise BadSetting(f"{name} takes {', '.join(taken)}, not {', '.join(sorted(strange))}.", about=sorted(strange))
    needed = {key for key, one in taken.items() if one.default is inspect.Parameter.empty}
    if missing := needed - parameters.keys():
        raise BadSetting(f"{name} needs {', '.join(sorted(missing))} besides.", about=sorted(missing))
    return SOURCES[name](**parameters)
