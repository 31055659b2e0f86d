"""The sales of an experiment: what they ask for, and when they come."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.bench.workload.laws import Draws
from pipeline.generate.bursts import USUAL_STREAMS, Bursts
from pipeline.master.computed import ComputedRows

Moments = npt.NDArray[np.float64]

BLOCK = 16_384  # sales drawn at once, and offered at once; a constant, or a seed would give other sales
STEP = 0.01  # seconds of a burst's step


def even(rate: float) -> Iterator[Moments]:
    """Sales that come one after the other, so many a second: the moments of their arrival."""
    first = 1
    while True:
        yield np.arange(first, first + BLOCK) / rate
        first += BLOCK


def bursty(rate: float, streams: int = USUAL_STREAMS, seed: int = 1) -> Iterator[Moments]:
    """So many a second in the mean; those of a step are spread over it."""
    for at, due in Bursts(rate, streams, seed, STEP):
        yield at - STEP + STEP * np.arange(1, due + 1) / max(1, due)


class Sales:
    """Keys of sales without end: the same for the same seed, however they are cut."""

    def __init__(self, rows: ComputedRows, law: Draws, absent: float, seed: int) -> None:
        self._rows, self._law, self._absent = rows, law, absent
        self._random = np.random.default_rng(seed)
        self._drawn = pa.array([], pa.int64())

    def next(self, most: int) -> pa.Array:
        """The next sales, as many of them as are at hand."""
        if not len(self._drawn):
            rank, lost = self._random.random((2, BLOCK))
            # Keys are even: no row has the next number.
            self._drawn = pa.array(self._rows.keys_of(self._law.draw(rank)) + (lost < self._absent))
        return self._drawn.slice(0, most)

    def taken(self, number: int) -> None:
        self._drawn = self._drawn.slice(number)
