"""How often a key is wanted, or comes, where Zipf's law over all keys does not say it: TPC-H's orders, and weather."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from pipeline.errors import BadSetting
from pipeline.generate.zipf import ZipfDraw
from pipeline.joins.cost.results import UNKNOWN, Results
from pipeline.master.computed import ComputedRows, Numbers, Scatter

Uniforms = npt.NDArray[np.float64]

_LOOKED_AT = 1 << 20  # draws
_MORTALITY = 3  # TPC-H: every third customer orders nothing


class Draws(Protocol):
    """What sales ask for: the ranks that ComputedRows has keys for. Every `Law` is one."""

    @property
    def ranks(self) -> int:
        """How many keys there may be."""
        ...

    def draw(self, random: Uniforms) -> Numbers:
        """The key, from 0, that each number of [0, 1) falls on."""
        ...


def results(rows: ComputedRows, law: Draws) -> Results:
    """What sales find, if keys repeat. From the law, evenly, not by chance.

    >>> law = Histogram(np.array([5.0, 0.0, 1.0]))
    >>> found = results(ComputedRows(600, law=law), Histogram(np.array([1.0, 1.0, 0.0])))
    >>> round(found.mean, 3), [round(number, 3) for number in found.rows]
    (250.5, [0.0, 500.0])
    """
    if rows.unique:
        return UNKNOWN
    ranks = np.arange(law.ranks)
    if isinstance(law, ZipfDraw | Histogram):
        p = np.diff(law.shares_of_first(np.arange(law.ranks + 1)))
    else:
        p = np.bincount(law.draw((np.arange(_LOOKED_AT) + 0.5) / _LOOKED_AT), minlength=law.ranks).astype(np.float64)
    keys = rows.keys_of(ranks)
    return Results.of(p, (rows.behind(keys) - rows.first_at(keys)).astype(np.float64))


class Histogram:
    """
    Idea
        A law that is a table: how much of all each key has, in the order of the keys. It may repeat the keys of a
        ComputedRows, and draw its sales.

    Memory
        8 bytes a key.

    Example
        >>> law = Histogram(np.array([1.0, 0.0, 3.0]))
        >>> law.draw(np.array([0.0, 0.2, 0.25, 0.999])).tolist(), law.shares_of_first(np.array([1, 2, 3])).tolist()
        ([0, 0, 2, 2], [0.25, 0.25, 1.0])
    """

    def __init__(self, weights: Uniforms) -> None:
        if not len(weights) or weights.min() < 0 or not weights.sum() > 0:
            raise BadSetting("weights: a histogram needs at least one key, none below 0, and one above 0.")
        self._shares = np.concatenate([[0.0], np.cumsum(weights) / weights.sum()])
        self._shares[-1] = 1.0

    @property
    def ranks(self) -> int:
        return len(self._shares) - 1

    def shares_of_first(self, ranks: Numbers) -> Uniforms:
        """The part of all that has one of so many first keys."""
        shares: Uniforms = self._shares[ranks]
        return shares

    def draw(self, random: Uniforms) -> Numbers:
        return np.searchsorted(self._shares, random, side="right").astype(np.int64) - 1


class Orders:
    """
    Idea
        The customers of TPC-H's orders, C_CUSTKEY less one. dbgen draws each from all customers, and where the number
        can be divided by three (specification 4.2.3: a third of the customers has no orders) it takes the next one. So
        of each three customers the first has two thirds of the orders, the second one, and the third none: the
        "uniform" draw is not quite so. Nothing in it is skewed: no customer has more than twice the mean.

        With a `skew`, which dbgen has not, Zipf's law over the customers with orders, the wanted ones scattered over
        the table.

    Example
        >>> (Orders(9).draw(np.arange(9) / 9) + 1).tolist()
        [1, 2, 4, 4, 5, 7, 7, 8, 8]
    """

    def __init__(self, customers: int, skew: float | None = None, seed: int = 0) -> None:
        if customers < _MORTALITY:
            raise BadSetting(f"{customers} customers: of three, two have orders; it takes at least three.")
        self.ranks = customers
        with_orders = customers - customers // _MORTALITY
        self._zipf = None if skew is None else ZipfDraw(with_orders, skew)
        self._scatter = Scatter(with_orders, seed)

    def draw(self, random: Uniforms) -> Numbers:
        if self._zipf is None:
            return self._as_dbgen(random)
        number = self._scatter.place(self._zipf.draw(random))
        customer: Numbers = number // 2 * _MORTALITY + number % 2
        return customer

    def _as_dbgen(self, random: Uniforms) -> Numbers:
        custkey = 1 + (random * self.ranks).astype(np.int64)
        after = np.where(custkey < self.ranks, custkey + 1, custkey - 1)
        drawn: Numbers = np.where(custkey % _MORTALITY, custkey, after) - 1
        return drawn


LONGITUDES = 36_001  # in hundredths of a degree, 0 to 36 000
_STATIONS, _CLUSTERS = 10_000, 20
_OF_SHIPS = 0.1  # of all reports
_WIDTHS = 300, 3_000  # hundredths of a degree, a cluster's standard deviation


def weather(seed: int = 0) -> Histogram:
    """
    Reports of clouds by longitude: weather-LIKE, declared here and drawn from a seed, and not the data of the papers
    (synoptic reports, of which we have no row). 10 000 stations on land lie in 20 clusters of different weight and
    width, and report equally often; a tenth of the reports is by ships, which are anywhere. So a report's longitude is
    that of a station most times, of a quarter of all longitudes, which have 33 times as many as the sea, or more.
    """
    random = np.random.default_rng(seed)
    cluster = random.choice(_CLUSTERS, _STATIONS, p=random.dirichlet(np.ones(_CLUSTERS)))
    centre, width = random.uniform(0, LONGITUDES, _CLUSTERS), random.uniform(*_WIDTHS, _CLUSTERS)
    longitude = np.rint(random.normal(centre[cluster], width[cluster])).astype(np.int64) % LONGITUDES
    stations = np.bincount(longitude, minlength=LONGITUDES) / _STATIONS
    return Histogram((1 - _OF_SHIPS) * stations + _OF_SHIPS / LONGITUDES)
