"""Which waiting keys lie on which page of R: found by the page, at the cost of what is found."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pipeline.joins.parts import kernels
from pipeline.joins.parts.keyindex import Slots

NO_PAGE = -1
KEY_BYTES = 4 + 4 + 4  # its page, the keys before and behind it there
PAGE_BYTES = 4  # its first key


class KeysByPage:
    """
    Idea
        The keys of a page are a chain, linked both ways, so that any of them can leave it.

    Memory
        KEY_BYTES a key, PAGE_BYTES a page.

    Example
        >>> keys = KeysByPage(capacity=4)
        >>> keys.put(np.array([0, 1, 2], np.int32), np.array([7, 7, 3], np.int32))
        >>> keys.on(7).tolist(), keys.page_of[:4].tolist()
        ([1, 0], [7, 7, 3, -1])
        >>> keys.drop(np.array([1], np.int32))
        >>> keys.on(7).tolist(), keys.on(8).tolist()
        ([0], [])
    """

    def __init__(self, capacity: int) -> None:
        self.page_of = np.full(capacity, NO_PAGE, np.int32)  # of a key, by its slot
        self._before = np.full(capacity, -1, np.int32)
        self._after = np.full(capacity, -1, np.int32)
        self._first = np.full(0, -1, np.int32)  # of a page

    @property
    def nbytes(self) -> int:
        return self.page_of.nbytes + self._before.nbytes + self._after.nbytes + self._first.nbytes

    def put(self, slots: Slots, pages: npt.NDArray[np.int32]) -> None:
        """These (distinct) keys lie on these pages, wherever they were thought to lie."""
        most = int(pages.max(initial=NO_PAGE)) + 1
        if most > len(self._first):
            more = np.full(most - len(self._first), -1, np.int32)
            self._first = np.concatenate([self._first, more])
        kernels.put(slots, pages, self.page_of, self._first, self._before, self._after)

    def drop(self, slots: Slots) -> None:
        """These keys wait no more; some may have left before, and some come twice."""
        kernels.put(slots, np.full(len(slots), NO_PAGE, np.int32), self.page_of, self._first, self._before, self._after)

    def on(self, page: int) -> Slots:
        """The keys of a page."""
        first = self._first[page] if page < len(self._first) else -1
        slots: Slots = kernels.chain(first, self._after)
        return slots

    def check(self) -> None:
        """Assert every invariant."""
        # A page's chain has exactly the keys that lie on it.
        keys, pages = kernels.every_chain(self._first, self._after)
        assert np.array_equal(np.sort(keys), np.flatnonzero(self.page_of != NO_PAGE))
        assert np.array_equal(self.page_of[keys], pages)
