"""How often keys were wanted that are not in the cache: a few bytes of memory instead of their rows."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pipeline.joins.parts import kernels
from pipeline.joins.parts.keycodes import Codes

BYTES = 8  # for a row of the cache: 16 counters. With half as many they are shared too often to be worth their room

Counts = npt.NDArray[np.float32]


class Sketch:
    """
    Idea
        Without it a key that comes once a window looks like one that came once and never again. Each key has two
        counters of 4 bits, which it shares with others; the lesser one is nearer the truth, and what the mean counter
        has is taken off, for any key seems to be wanted that often. Counts fade: what one is worth falls until it is
        half, then all are halved.

    Memory
        8 bytes a row of the cache.

    Example
        >>> sketch = Sketch(rows=100)
        >>> codes = np.array([[7], [9], [7]], np.uint64)
        >>> sketch.missed(codes)
        >>> sketch.wanted(codes[:2]).round(1).tolist()
        [2.0, 1.0]
        >>> sketch.age(0.75)
        >>> sketch.wanted(codes[:2]).round(1).tolist()
        [1.5, 0.699999988079071]
        >>> sketch.left(codes[:1], np.array([9], np.float32))
        >>> sketch.wanted(codes[:1]).round().tolist()
        [9.0]

    Reference
        Einziger, Friedman, Manes: TinyLFU: A Highly Efficient Cache Admission Policy, ACM Transactions on Storage 2017;
        the lesser counter alone rises as in Estan, Varghese: New Directions in Traffic Measurement, SIGCOMM 2002.
    """

    def __init__(self, rows: int) -> None:
        """`rows`: of the cache; 0: nothing is remembered."""
        self._pairs = np.zeros(BYTES * rows, np.uint8)
        self._worth = 1.0  # of a count
        self.counted = 0  # of all counters
        self._random = np.ones(1, np.uint64)

    @staticmethod
    def bytes_for(rows: int) -> int:
        return BYTES * rows

    @property
    def nbytes(self) -> int:
        return self._pairs.nbytes

    def missed(self, codes: Codes) -> None:
        """A sale wanted each of these."""
        self._remember(codes, np.ones(len(codes), np.float32), more=True)

    def left(self, codes: Codes, wanted: Counts) -> None:
        """These leave the cache, where they were wanted so often."""
        self._remember(codes, wanted, more=False)

    def _remember(self, codes: Codes, wanted: Counts, more: bool) -> None:
        self.counted += kernels.remember(codes, wanted, more, self._worth, self._pairs, self._random)

    def wanted(self, codes: Codes) -> Counts:
        """How often each of these was, as far as is remembered: 15 times at most."""
        wanted: Counts = kernels.recall(codes, self._worth, self._pairs)
        return wanted - np.float32(self._worth * self.counted / max(1, 2 * len(self._pairs)))

    def age(self, factor: float) -> None:
        self._worth *= factor
        while self._worth <= 1 / 2:
            self.counted = kernels.halve(self._pairs, self._random)
            self._worth *= 2
