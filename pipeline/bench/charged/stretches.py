"""What is told of a stretch of virtual time in which a join worked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline.bench.workload.stream import BLOCK, Moments
from pipeline.master.disks import DiskUse
from pipeline.master.port import Reads


class Column:
    """An array that grows at its end."""

    def __init__(self) -> None:
        self._values: Moments = np.empty(BLOCK)
        self._used = 0

    def append(self, values: Moments) -> None:
        while self._used + len(values) > len(self._values):
            self._values = np.concatenate([self._values, np.empty(len(self._values))])
        self._values[self._used : self._used + len(values)] = values
        self._used += len(values)

    @property
    def all(self) -> Moments:
        return self._values[: self._used]


@dataclass(frozen=True)
class Saturated:
    """A stretch of time in which sales always waited for the join."""

    sales: int  # served
    admitted: int  # nearly as many: the queue is full before and after
    seconds: float
    hits: int  # sales that never had to wait
    matched: int  # pairs of sale and row
    unmatched: int
    processing: Moments  # seconds from admission until served, of those that were served
    reads: Reads
    disk: DiskUse

    @property
    def rate(self) -> float:
        """The service rate, mu."""
        return self.sales / self.seconds


@dataclass(frozen=True)
class Observed:
    """A stretch of time in which sales came at their own rate."""

    seconds: float
    arrived: int
    admitted: int
    served: int
    waiting: Moments  # seconds from arrival until admission, of each sale admitted
    processing: Moments  # from admission until served (with the last of its rows), of each sale served
    mean_queued: float  # over time, how many had arrived and were not admitted
    mean_pending: float  # how many were admitted and not served
    at: Moments  # when the queues were looked at: before and after each offer
    queued: npt.NDArray[np.int64]  # as they were then
    pending: npt.NDArray[np.int64]


def mean_length(came: Moments, left: Moments, first: float, last: float) -> float:
    """Of a queue, over time: all that were ever in it came and left at these moments; nan: not yet.

    >>> mean_length(np.array([-1.0, 2.0, 11.0]), np.array([6.0, 8.0, np.nan]), first=0.0, last=10.0)
    1.2
    """
    for_so_long = [
        np.maximum(0.0, last - np.maximum(first, np.nan_to_num(at, nan=np.inf))).sum() for at in (came, left)
    ]
    return float(for_so_long[0] - for_so_long[1]) / (last - first)


def first_pair(at: Moments, since: float) -> int:
    """Queues are looked at before and after each offer: where the first two looks are that count."""
    return 2 * min(int(np.searchsorted(at[::2], since)), len(at) // 2 - 1)
