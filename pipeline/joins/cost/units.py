"""What all cost models share: unit costs, the master table, the stream, and what a model answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

T = TypeVar("T")

_LEARN = 0.3  # weight of the newest measurement of a unit cost
_TOGETHER = 16_384  # sales that are looked at before a row asked for by one of them can serve the others


@dataclass(frozen=True)
class Line:
    """The seconds of a request that grows with what is asked for.

    >>> Line(0.001, 0.000002)(500)
    0.002
    """

    request: float
    item: float

    def __call__(self, items: float) -> float:
        return self.request + self.item * items


@dataclass(frozen=True)
class UnitCosts:
    """Seconds, on one worker. The defaults are those of a laptop-sized machine with the database beside it;
    `millrace calibrate` measures the user's own."""

    lookup: Line = Line(5.0e-4, 5.0e-6)  # c_IO of n keys by name, a query after the other
    overlapped: Line = Line(1.0e-3, 3.5e-6)  # the same in auto's flow over several connections, its own work included
    page: Line = Line(8.0e-4, 1.0e-6)  # c_IO of a page of d rows by the index
    scan: Line = Line(8.0e-4, 0.5e-6)  # c_IO of b rows of a cyclic scan
    borders: float = 0.3e-6  # a row of R, when the first keys of its pages are read
    loop: float = 8.0e-4  # one iteration of a join's outer loop, whatever it does: the calls of array operations
    c_K: float = 5.0e-7  # a join's own part of asking for a key by name: writing it down, and finding who waits for it
    c_F: float = 1.0e-7  # probing the front stage's cache with a sale
    c_P: float = 3.0e-4  # one offer, however few sales: a small memory takes them in small pieces
    c_S: float = 0.5e-7  # reading a sale from the stream: its key's code
    c_A: float = 2.0e-7  # adding a sale to H and Q
    c_E: float = 1.0e-7  # removing a sale from H and Q
    c_H: float = 1.0e-7  # probing H with a row, the row's code included
    c_W: float = 3.0e-9  # passing over one waiting sale when a match is made
    c_O: float = 1.0e-7  # a result
    loops: tuple[tuple[str, float], ...] = ()  # `loop` of single joins, where it was measured

    def of(self, join: str) -> UnitCosts:
        """These costs with the `loop` of this join."""
        return replace(self, loop=dict(self.loops).get(join, self.loop))

    def learned(self, way: str, more: float) -> UnitCosts:
        """These costs, with an item of this way moved towards so many seconds more.

        >>> UnitCosts(scan=Line(0.0, 2e-6)).learned("scan", 1e-6).scan.item
        2.3e-06
        """
        line: Line = getattr(self, way)
        item = line.item + _LEARN * max(more, line.item / 10 - line.item)
        changed: dict[str, Any] = {way: replace(line, item=item)}
        return replace(self, **changed)


@dataclass(frozen=True)
class Relation:
    """R, as a model sees it."""

    R_t: int  # rows
    v_R: float  # bytes of a row in Arrow
    words: int  # of a key's code, 8 bytes each
    row_bytes: float  # of a row in a disk buffer: see Join.row_bytes


@dataclass(frozen=True)
class Stream:
    """S, as a model sees it."""

    e: float = 1.0  # exponent of the keys' Zipf distribution
    batch: int = 125_000  # sales of one window: after each, nothing may be pending
    absent: float = 0.0  # share of sales without a master row
    beyond: float = 0.0  # so many of the most wanted rows are served before, by a front stage
    life: float = math.inf  # so many sales come while a cached row is young enough; then it is asked for again

    def over(self, relation: Relation) -> Zipf:
        """How these sales are distributed over the rows of R."""
        return Zipf(relation.R_t, self.e, self.beyond, self.life)

    def hits(self, h_R: float, relation: Relation) -> float:
        """The share of the sales that a cache of the h_R most wanted rows serves: its rows have not grown too old."""
        return self.over(relation).share(h_R, self.life) * (1 - self.absent)


@dataclass(frozen=True)
class Prediction:
    """What a model says about a join."""

    algorithm: str
    memory: int
    split: dict[str, int]  # bytes by part
    parameters: dict[str, float] = field(default_factory=dict)  # in the paper's symbols: w, b, h_S, h_R, k, l
    mu: float = 0.0  # service rate: sales a second of join time
    processing_time: float = 0.0  # mean seconds from admission until served
    queries: float = 0.0  # of the master, a second of join time
    rows: float = 0.0  # read from the master, a second of join time
    remark: str = ""  # what else its user should know


class Zipf:
    """The distribution of sales over the rows of R: the x-th most wanted row has a share of 1 / x**e.

    Of the `beyond` most wanted rows no sale is left: a front stage has served them. With a `life` those are left that
    find their row there too old.

    >>> round(Zipf(2_000_000, 1.0).share(20_000), 2), Zipf(100, 0.0).share(10), Zipf(100, 0.0, beyond=50).share(60)
    (0.69, 0.1, 0.2)
    """

    def __init__(self, rows: int, e: float, beyond: float = 0.0, life: float = math.inf) -> None:
        self.rows, self.e, self.life = max(1, rows), e, life
        self.beyond = max(0.0, min(beyond, self.rows - 1 if math.isinf(life) else self.rows))

    @cached_property
    def _buckets(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Ranks in buckets of equal ratio: how many rows each has, and the share of one of them."""
        edges, border = _edges(self.rows), round(self.beyond) + 1
        place = int(np.searchsorted(edges, border))
        if place == len(edges) or edges[place] != border:
            edges = np.insert(edges, place, border)
        counts = np.diff(edges).astype(np.float64)
        weights: npt.NDArray[np.float64] = ((edges[:-1] + edges[1:] - 1) / 2) ** -self.e
        served = edges[:-1] <= self.beyond
        weights[served] *= _too_old(weights[served] / (counts * weights).sum(), self.life)
        return counts, weights / (counts * weights).sum()

    def share(self, most_wanted: float, life: float = math.inf) -> float:
        """p_N: the share of sales that want one of these most wanted rows, and with a `life` find it young enough."""
        counts, p = self._buckets
        before = np.cumsum(counts) - counts
        return float((np.clip(most_wanted - before, 0, counts) * p * (1 - _too_old(p, life))).sum())

    def distinct(self, sales: float) -> float:
        """How many different rows so many sales want."""
        counts, p = self._buckets
        return float((counts * -np.expm1(-sales * p)).sum())

    def of_pages(self, pages: int) -> npt.NDArray[np.float64]:
        """The shares of R's pages, when the rows lie on them regardless of how much they are wanted."""
        random = np.random.default_rng(0)
        counts, p = self._buckets
        alone = np.flatnonzero(counts <= max(1, pages // 8))
        hot = np.repeat(p[alone], counts[alone].astype(np.int64))
        rest = np.delete(counts * p, alone).sum()
        shares = np.bincount(random.integers(0, pages, len(hot)), hot, minlength=pages).astype(np.float64)
        shares += rest / pages
        return shares


@lru_cache(maxsize=16)
def _edges(rows: int) -> npt.NDArray[np.int64]:
    """Where ranks are divided into buckets of equal ratio: 1 first, behind the last one last."""
    return np.unique(np.concatenate([[1], np.geomspace(1, rows + 1, 2_000).astype(np.int64), [rows + 1]]))


def _too_old(p: npt.NDArray[np.float64], life: float) -> npt.NDArray[np.float64]:
    """The share of the sales for rows wanted with share p that miss because the row kept is too old.

    A row read now serves for `life` sales. It is read again with the first sales behind these that want it; whoever
    comes together with the first of them has to wait as well.
    """
    if math.isinf(life):
        return np.zeros_like(p)
    wanted = -np.expm1(-_TOGETHER * p)
    share: npt.NDArray[np.float64] = 1 / (1 + life / _TOGETHER * wanted)
    return share


def best(candidates: Iterable[T], value: Callable[[T], float]) -> T:
    """The candidate of the greatest value: the papers' "standard calculus", done by looking."""
    return max(candidates, key=value)


def grid(least: float, most: float, steps: int = 40) -> list[int]:
    """Whole numbers from `least` to `most` in equal ratios: where a model looks for its best parameter.

    >>> grid(1, 100, 5)
    [1, 3, 10, 32, 100]
    """
    least, most = max(1.0, least), max(1.0, least, most)
    return sorted({round(number) for number in np.geomspace(least, most, steps)})
