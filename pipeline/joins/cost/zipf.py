"""How sales are distributed over the rows of R, and over its pages."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt

Order = Literal["scattered", "by frequency"]  # of R: where the rows lie that are wanted most: anywhere, or first
Floats = npt.NDArray[np.float64]

_NOTHING = 1e-300  # a share, where a front stage has served all
_AN_OCTAVE = 8  # steps
_TOGETHER = 16_384  # sales that are looked at before a row asked for by one of them can serve the others


@dataclass(frozen=True)
class Zipf:
    """The distribution of sales over the rows of R: the x-th most wanted row has a share of 1 / x**e.

    Of the `beyond` most wanted rows no sale is left: a front stage has served them. With a `life` those are left that
    find their row there too old. `by_integral`: 1 / x**e is integrated from x to x + 1, as the generators of the papers
    do (generate/zipf.py), which makes the first rows less wanted.

    >>> round(Zipf(2_000_000, 1.0).share(20_000), 2), Zipf(100, 0.0).share(10), Zipf(100, 0.0, beyond=50).share(60)
    (0.69, 0.1, 0.2)
    """

    rows: int
    e: float
    beyond: float = 0.0
    life: float = math.inf
    by_integral: bool = False

    def __post_init__(self) -> None:
        rows = max(1, self.rows)
        object.__setattr__(self, "rows", rows)
        object.__setattr__(self, "beyond", max(0.0, min(self.beyond, rows - 1 if math.isinf(self.life) else rows)))

    @cached_property
    def buckets(self) -> tuple[Floats, Floats]:
        """Ranks in buckets of equal ratio: how many rows each has, and the share of one of them."""
        edges, border = _edges(self.rows), round(self.beyond) + 1
        place = int(np.searchsorted(edges, border))
        if place == len(edges) or edges[place] != border:
            edges = np.insert(edges, place, border)
        counts = np.diff(edges).astype(np.float64)
        weights = self._integrals(edges) / counts if self.by_integral else ((edges[:-1] + edges[1:] - 1) / 2) ** -self.e
        served = edges[:-1] <= self.beyond
        weights[served] *= _too_old(weights[served] / (counts * weights).sum(), self.life)
        return counts, weights / (counts * weights).sum()

    def _integrals(self, edges: npt.NDArray[np.int64]) -> Floats:
        power = 1 - self.e
        logarithms = np.log(edges)
        integrals: Floats = np.diff(np.expm1(power * logarithms) / power if power else logarithms)
        return integrals

    def share(self, most_wanted: float, life: float = math.inf) -> float:
        """p_N: the share of sales that want one of these most wanted rows, and with a `life` find it young enough."""
        counts, p = self.buckets
        before = np.cumsum(counts) - counts
        return float((np.clip(most_wanted - before, 0, counts) * p * (1 - _too_old(p, life))).sum())

    def distinct(self, sales: float) -> float:
        """How many different rows so many sales want."""
        counts, p = self.buckets
        return float((counts * -np.expm1(-sales * p)).sum())

    def about(self) -> Zipf:
        """As good as the same, with `beyond` to about a tenth: what is remembered of it serves its neighbours too."""
        if self.beyond < 1:
            return self
        return replace(self, beyond=float(2 ** (round(math.log2(self.beyond) * _AN_OCTAVE) / _AN_OCTAVE)))

    def of_pages(self, pages: int, order: Order = "scattered") -> Floats:
        """The shares of R's pages, in the order in which they lie."""
        return self.on_pages(self.buckets[1], pages, order)

    def on_pages(self, of_a_row: Floats, pages: int, order: Order = "scattered") -> Floats:
        """What the rows have, each as its bucket says, summed over each of R's pages."""
        if order == "by frequency":
            return np.diff(self.of_first(of_a_row, np.arange(pages + 1, dtype=np.float64) * (self.rows / pages)))
        place, hot, rest = self._scattered(of_a_row, pages)
        sums = np.bincount(place, hot, minlength=pages).astype(np.float64)
        return sums + rest / pages

    def _scattered(self, of_a_row: Floats, pages: int) -> tuple[npt.NDArray[np.int64], Floats, float]:
        """The pages on which the most wanted rows lie, what these have, and what all others have together."""
        counts, _ = self.buckets
        alone = np.flatnonzero(counts <= max(1, pages // 8))
        hot = np.repeat(of_a_row[alone], counts[alone].astype(np.int64))
        rest = float(np.delete(counts * of_a_row, alone).sum())
        return np.random.default_rng(0).integers(0, pages, len(hot)), hot, rest

    def keys_on_pages(self, sales: float, pages: int, order: Order = "scattered") -> Floats:
        """The different keys of so many sales that all want rows of one page; for each page."""
        counts, p = self.buckets
        q = self.of_pages(pages, order)
        if order == "by frequency":
            middle = (np.cumsum(counts) - counts / 2) / self.rows
            own = p / np.maximum(p, np.maximum(q[np.minimum((middle * pages).astype(np.int64), pages - 1)], _NOTHING))
            return self.on_pages(_wanted(own, sales), pages, order)
        place, hot, rest = self._scattered(p, pages)
        q = np.maximum(q, _NOTHING)
        others = (self.rows - len(hot)) / pages
        keys: Floats = np.bincount(place, _wanted(hot / q[place], sales), minlength=pages).astype(np.float64)
        if others:
            keys += others * _wanted(rest / pages / others / q, sales)
        return keys

    def keys_between(self, places: Floats, sales: float) -> Floats:
        """By frequency: the different keys from each of these places to the next, if so many sales want any of all."""
        p = self.buckets[1]
        all_of_them = np.diff(self.of_first(p, places[[0, -1]]))
        return np.diff(self.of_first(_wanted(p / np.maximum(all_of_them, _NOTHING), sales), places))

    def on_many_pages(self, of_a_row: Floats, pages: int) -> tuple[Floats, Floats]:
        """The same by frequency, with neighbours that have nearly as much together: how many, and what each has."""
        edges = (np.unique(np.geomspace(1, pages + 1, 2_000).astype(np.int64)) - 1).astype(np.float64)
        counts = np.diff(edges)
        return counts, np.diff(self.of_first(of_a_row, edges * (self.rows / pages))) / counts

    def of_first(self, of_a_row: Floats, rows: Floats) -> Floats:
        """What the so many most wanted rows have together."""
        counts, _ = self.buckets
        ends, sums = np.cumsum(counts), np.cumsum(counts * of_a_row)
        first: Floats = np.interp(rows, np.concatenate([[0.0], ends]), np.concatenate([[0.0], sums]))
        return first


def _wanted(shares: Floats, sales: float) -> Floats:
    """How likely something with such a share of the sales is wanted by any of so many."""
    wanted: Floats = -np.expm1(sales * np.log1p(-np.minimum(shares, 1 - 1e-12)))
    return wanted


@lru_cache(maxsize=16)
def _edges(rows: int) -> npt.NDArray[np.int64]:
    """Where ranks are divided into buckets of equal ratio: 1 first, behind the last one last."""
    return np.unique(np.concatenate([[1], np.geomspace(1, rows + 1, 2_000).astype(np.int64), [rows + 1]]))


def _too_old(p: Floats, life: float) -> Floats:
    """The share of the sales for rows wanted with share p that miss because the row kept is too old.

    A row read now serves for `life` sales. It is read again with the first sales behind these that want it; whoever
    comes together with the first of them has to wait as well.
    """
    if math.isinf(life):
        return np.zeros_like(p)
    wanted = -np.expm1(-_TOGETHER * p)
    share: Floats = 1 / (1 + life / _TOGETHER * wanted)
    return share
