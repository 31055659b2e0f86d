"""How often a row must be wanted before it is worth a place in a cache: a threshold that adapts."""

from __future__ import annotations

_RAISE, _LOWER = 1.5, 0.5
_TOO_OFTEN = 0.1  # evictions, as a share of the cache, while as many sales pass


class Threshold:
    """
    Idea
        It starts at 0. While the cache is not full it halves: the threshold is too high. It rises by half when more
        than a tenth of the cache is evicted while as many sales pass as it has rows, or at once: then it is too low.

    Example
        >>> threshold = Threshold(rows=100)
        >>> threshold.judge(sales=50, evicted=11, was_full=True); threshold.value
        1.0
        >>> threshold.judge(sales=50, evicted=11, was_full=True); threshold.value
        1.5
        >>> threshold.judge(sales=50, evicted=0, was_full=False); threshold.value
        0.75

    Reference
        cmeshjoin-cikm2013, section 3.1, which says in which direction it moves, and not by how much.
    """

    def __init__(self, rows: int, fixed: float = -1.0) -> None:
        """`fixed`: it stays at this value; below 0: it adapts."""
        self.value = max(0.0, fixed)
        self._adapts = fixed < 0
        self._rows = rows
        self._sales = self._evicted = 0  # since the last judgement

    def judge(self, sales: int, evicted: int, was_full: bool) -> None:
        """So many sales have passed and so many rows been evicted since it was last asked."""
        if not self._adapts:
            return
        self._sales, self._evicted = self._sales + sales, self._evicted + evicted
        if self._evicted > _TOO_OFTEN * self._rows:
            self.value = max(1.0, self.value * _RAISE)
        elif not was_full:
            self.value = self.value * _LOWER if self.value >= 1 else 0.0
        elif self._sales < self._rows:
            return
        self._sales = self._evicted = 0
