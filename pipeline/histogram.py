"""A mergeable histogram of durations, fine enough to be shifted and re-bucketed on the driver.

Workers observe arrays; the driver merges, moves ages forward to the commit, and feeds Prometheus and the panel.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_FIRST = 1e-4  # seconds; anything shorter counts as this
_RATIO = 1.02  # neighbouring edges: a quantile read from the middle of a bin is wrong by at most 1 %
_BINS = 1024  # 1e-4 s * 1.02**1024 is about 18 hours; longer counts as that
_EDGES = _FIRST * _RATIO ** np.arange(_BINS)


class Histogram:
    """Counts of durations in seconds in logarithmic bins.

    >>> h = Histogram.of(np.array([0.1, 0.1, 0.1, 2.0]))
    >>> round(h.quantile(0.5), 2), round(h.quantile(1.0), 1), h.count
    (0.1, 2.0, 4)
    """

    def __init__(self, counts: npt.NDArray[np.int64] | None = None, total: float = 0.0) -> None:
        self.counts = np.zeros(_BINS, np.int64) if counts is None else counts
        self.total = total  # the sum of all durations, exact

    @classmethod
    def of(cls, seconds: npt.NDArray[np.float64]) -> Histogram:
        durations = np.maximum(seconds, _FIRST)
        bins = np.minimum((np.log(durations / _FIRST) / np.log(_RATIO)).astype(np.int64), _BINS - 1)
        return cls(np.bincount(bins, minlength=_BINS).astype(np.int64), float(np.maximum(seconds, 0).sum()))

    @property
    def count(self) -> int:
        return int(self.counts.sum())

    def __iadd__(self, other: Histogram) -> Histogram:
        self.counts = self.counts + other.counts
        self.total += other.total
        return self

    def shifted(self, seconds: float) -> Histogram:
        """Every duration made longer by `seconds`: from an age at one moment to the age at a later one."""
        moved = Histogram()
        filled = np.flatnonzero(self.counts)
        durations = _EDGES[filled] * np.sqrt(_RATIO) + seconds
        bins = np.minimum((np.log(np.maximum(durations, _FIRST) / _FIRST) / np.log(_RATIO)).astype(np.int64), _BINS - 1)
        np.add.at(moved.counts, bins, self.counts[filled])
        moved.total = self.total + seconds * self.count
        return moved

    def quantile(self, q: float) -> float:
        """The duration below which the share `q` lies; 0 when nothing was observed."""
        if not self.count:
            return 0.0
        rank = min(int(np.searchsorted(np.cumsum(self.counts), q * self.count)), _BINS - 1)
        return float(_EDGES[rank] * np.sqrt(_RATIO))

    def cumulative(self, bounds: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        """How many durations were at most each of `bounds` (ascending), as Prometheus buckets count."""
        below = np.concatenate([[0], np.cumsum(self.counts)])
        return below[np.searchsorted(_EDGES * np.sqrt(_RATIO), bounds, side="right")]

    def sparse(self) -> dict[str, object]:
        """The filled bins only, small enough for a task's answer."""
        filled = np.flatnonzero(self.counts)
        return {"bins": filled.tolist(), "counts": self.counts[filled].tolist(), "total": self.total}

    @classmethod
    def from_sparse(cls, bins: list[int], counts: list[int], total: float) -> Histogram:
        histogram = cls(total=total)
        histogram.counts[bins] = counts
        return histogram
