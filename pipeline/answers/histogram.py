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
_MIDDLES = _EDGES * np.sqrt(_RATIO)


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
        """Durations as observed. A negative one, from a sender whose clock is ahead of ours, counts as none."""
        counts = np.bincount(_bins(seconds), minlength=_BINS).astype(np.int64)
        return cls(counts, float(np.maximum(seconds, 0).sum()))

    @property
    def count(self) -> int:
        return int(self.counts.sum())

    def __add__(self, other: Histogram) -> Histogram:
        return Histogram(self.counts + other.counts, self.total + other.total)

    def shifted(self, seconds: float) -> Histogram:
        """Every duration made longer by `seconds`: from an age at one moment to the age at a later one.

        Each shift rounds to a bin again, so shift once, by the whole of it: many small ones would add up to nothing.
        """
        filled = np.flatnonzero(self.counts)
        moved = np.zeros(_BINS, np.int64)
        np.add.at(moved, _bins(_MIDDLES[filled] + seconds), self.counts[filled])
        return Histogram(moved, max(0.0, self.total + seconds * self.count))

    def quantile(self, q: float) -> float:
        """The duration below which the share `q` lies; 0 when nothing was observed."""
        if not self.count:
            return 0.0
        rank = int(np.searchsorted(np.cumsum(self.counts), max(1.0, q * self.count)))
        return float(_MIDDLES[min(rank, _BINS - 1)])

    def cumulative(self, bounds: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        """How many durations were at most each of `bounds` (ascending), as Prometheus buckets count."""
        below = np.concatenate([[0], np.cumsum(self.counts)])
        return below[np.searchsorted(_MIDDLES, bounds, side="right")]

    def sparse(self) -> dict[str, object]:
        """The filled bins only, small enough for a task's answer."""
        filled = np.flatnonzero(self.counts)
        return {"bins": filled.tolist(), "counts": self.counts[filled].tolist(), "total": self.total}

    @classmethod
    def from_sparse(cls, bins: list[int], counts: list[int], total: float) -> Histogram:
        histogram = cls(total=total)
        histogram.counts[bins] = counts
        return histogram


def _bins(seconds: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    # By logarithm: a binary search over the edges would take longer.
    steps = np.log(np.maximum(seconds, _FIRST) / _FIRST) / np.log(_RATIO)
    bins: npt.NDArray[np.int64] = np.minimum(steps.astype(np.int64), _BINS - 1)
    return bins
