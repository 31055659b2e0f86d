"""Figures of which one run gives all of x: what is told of it between each place and the next."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from pipeline.bench.charged.trial import Trial
from pipeline.bench.point.points import Point
from pipeline.bench.workload.stream import Moments, Sales, bursty, even

Tells = Callable[[Point, int, Trial | None], list[float]]  # the point, its seed, and its join warmed up, if it has one


def use_of_rows(point: Point, seed: int, trial: Trial | None) -> list[float]:
    """The share of the sales that want a row, in the mean of those that lie from one place of R to the next."""
    rows = point.rows
    sales = Sales(rows, point.data.law, point.sales.absent, seed)
    edges = _edges(point, rows.rows)
    wanted, left = np.zeros(len(edges) - 1), point.length
    while left:
        keys = sales.next(left)
        sales.taken(len(keys))
        wanted += np.histogram(rows.places_of(rows.first_at(keys.to_numpy())), edges)[0]
        left -= len(keys)
    shares: list[float] = (wanted / point.length / np.diff(edges)).tolist()
    return shares


def arrivals(point: Point, seed: int, trial: Trial | None) -> list[float]:
    """Sales a second that come from one moment to the next."""
    assert point.arrivals
    come = point.arrivals
    moments = even(come.rate) if come.law == "even" else bursty(come.rate, come.streams, seed)
    edges = _edges(point, come.seconds)
    counted = np.zeros(len(edges) - 1)
    some: Moments = np.empty(0)
    while not len(some) or some[-1] < edges[-1]:
        some = next(moments)
        counted += np.histogram(some, edges)[0]
    rates: list[float] = (counted / np.diff(edges)).tolist()
    return rates


CURVES: dict[str, Tells] = {"use of rows": use_of_rows, "arrivals": arrivals}


def _edges(point: Point, end: float) -> npt.NDArray[np.float64]:
    """The places, and the end."""
    assert point.curve
    return np.array([*point.curve.at, end])
