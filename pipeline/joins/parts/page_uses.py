"""How much each page of R was wanted lately."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_HALF_LIFE = 16  # sales for each page of R, or for each that may wait, until a use counts half


class PageUses:
    """
    Idea
        A counter for each page of R, of the sales it served. All are halved at intervals, so that what was wanted long
        ago counts for less than what is wanted now.

    Memory
        4 bytes for each page.

    Example
        >>> uses = PageUses(pages=2, waiting=0)
        >>> uses.count(np.array([1, 0, 1], np.int32))
        >>> uses.count_at(3, sales=5)
        >>> uses.of.tolist()
        [1.0, 2.0, 0.0, 5.0]
        >>> uses.count_at(3, sales=251)
        >>> uses.of.tolist()
        [0.5, 1.0, 0.0, 128.0]
    """

    def __init__(self, pages: int, waiting: int) -> None:
        """`waiting`: sales that may wait for pages; what these serve is counted late, and all at once."""
        self.of = np.zeros(pages, np.float32)
        self._waiting = waiting
        self._until_halved = self._half_life

    def count(self, pages: npt.NDArray[np.int32]) -> None:
        """A sale for each time that a page is named; the pages are known."""
        self.of += np.bincount(pages, minlength=len(self.of)).astype(np.float32)
        self._fade(len(pages))

    def count_at(self, page: int, sales: int) -> None:
        self.grow(page)
        self.of[page] += sales
        self._fade(sales)

    def grow(self, page: int) -> None:
        """Know this page too."""
        if page >= len(self.of):
            self.of = np.append(self.of, np.zeros(page + 1 - len(self.of), np.float32))

    def begin_anew(self, pages: int) -> None:
        self.of = np.zeros(pages, np.float32)

    @property
    def _half_life(self) -> int:
        return _HALF_LIFE * max(16, len(self.of), self._waiting)

    def _fade(self, sales: int) -> None:
        self._until_halved -= sales
        if self._until_halved <= 0:
            self.of *= np.float32(0.5)
            self._until_halved = self._half_life
