"""How sales are distributed over the rows of R."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

_AN_OCTAVE = 8  # steps
_TOGETHER = 16_384  # sales that are looked at before a row asked for by one of them can serve the others


@dataclass(frozen=True)
class Zipf:
    """The distribution of sales over the rows of R: the x-th most wanted row has a share of 1 / x**e.

    Of the `beyond` most wanted rows no sale is left: a front stage has served them. With a `life` those are left that
    find their row there too old.

    >>> round(Zipf(2_000_000, 1.0).share(20_000), 2), Zipf(100, 0.0).share(10), Zipf(100, 0.0, beyond=50).share(60)
    (0.69, 0.1, 0.2)
    """

    rows: int
    e: float
    beyond: float = 0.0
    life: float = math.inf

    def __post_init__(self) -> None:
        rows = max(1, self.rows)
        object.__setattr__(self, "rows", rows)
        object.__setattr__(self, "beyond", max(0.0, min(self.beyond, rows - 1 if math.isinf(self.life) else rows)))

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

    def about(self) -> Zipf:
        """As good as the same, with `beyond` to about a tenth: what is remembered of it serves its neighbours too."""
        if self.beyond < 1:
            return self
        return replace(self, beyond=float(2 ** (round(math.log2(self.beyond) * _AN_OCTAVE) / _AN_OCTAVE)))

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
