"""A join under a stream of sales on a real master, and what it did in the stretches of time that count."""

from __future__ import annotations

import time
from collections.abc import Callable
from copy import deepcopy

import numpy as np
import pyarrow as pa

from pipeline.joins import Join
from pipeline.master.port import Reads

OFFER = 125_000  # sales a window, as worker.window_sales
_SALES_A_CACHED_ROW = 100
_LONGEST_PIECE = 16_384  # a join takes no more at once


def rounds(join: Join) -> int:
    """So many sales have to leave a full join until it serves as it will from then on."""
    return join.algorithm.settles_in * join.pending


class RealTrial:
    """Sales always wait for the join; their keys come round again and again.

    `bounded`: in windows of OFFER sales after which nothing is pending, as the job does; else an endless stream.
    """

    def __init__(self, join: Join, keys: pa.Array, bounded: bool = False) -> None:
        self.join = join
        self.sales = self.hits = 0
        self.seconds = 0.0
        self.rates: list[float] = []  # of the stretches
        self.reads = Reads()
        self._stream = _Stream(join, keys, bounded)
        self._waited = 0.0  # sale-seconds in the join, in the stretches

    def warm_up(self, least: float, most: float) -> None:
        """The join has to have settled, and a cache must have seen enough sales to keep the rows it should."""
        began, stream = time.perf_counter(), self._stream
        stream.run(lambda: (took := time.perf_counter() - began) >= most or (took >= least and stream.turned))

    def run(self, seconds: float) -> None:
        reads, hits, served = deepcopy(self.join.master.reads), self.join.statistics.hits, self._stream.served
        waited = self._stream.waited
        began = time.perf_counter()
        self._stream.run(lambda: time.perf_counter() - began >= seconds)
        took, sales = time.perf_counter() - began, self._stream.served - served
        self.rates.append(sales / took)
        self.sales, self.seconds = self.sales + sales, self.seconds + took
        self.hits += self.join.statistics.hits - hits
        self.reads += self.join.master.reads - reads
        self._waited += self._stream.waited - waited

    @property
    def rate(self) -> float:
        """The service rate: sales served a second of join time."""
        return self.sales / self.seconds

    @property
    def processing_time(self) -> float:
        """Mean seconds from admission until served, by Little's law: the mean number in the join, by the rate."""
        return self._waited / max(1, self.sales)


class _Stream:
    def __init__(self, join: Join, keys: pa.Array, bounded: bool) -> None:
        self.join, self.keys, self.bounded = join, keys, bounded
        self.offered = self.position = 0
        self.waited = 0.0

    @property
    def served(self) -> int:
        return self.offered - self.join.pending

    @property
    def turned(self) -> bool:
        """What waited when the join was full for the first time has left it, and the cache is full of rows it knows.

        Where keys may repeat, a sixteenth of it fills with each scan of R: an empty one is not the join's doing.
        """
        cache = getattr(self.join.algorithm, "cache", None)  # of a front stage
        filled = cache is None or cache.is_full
        return filled and self.served > max(rounds(self.join), _SALES_A_CACHED_ROW * self.join.cached_rows)

    def run(self, enough: Callable[[], bool]) -> None:
        while not enough():
            began, before = time.perf_counter(), self.join.pending
            if self.bounded:
                last = self.position + OFFER
                while self.position < last or self.join.pending:
                    self._fill(last)
                    self.join.step(drain=self.position == last)
            else:
                self._fill(1 << 62)
                before = max(before, self.join.pending)
                self.join.step()
            self.waited += before * (time.perf_counter() - began)

    def _fill(self, last: int) -> None:
        """Offer until the join takes no more, as the job does; the keys come round again and again."""
        while self.position < last:
            at = self.position % len(self.keys)
            piece = self.keys.slice(at, min(last - self.position, len(self.keys) - at, _LONGEST_PIECE))
            taken = self.join.offer(np.arange(self.position, self.position + len(piece)), piece)
            self.position += taken
            self.offered += taken
            if not taken:
                return
