"""How many sales wait for each page of R, and since when: which page is worth reading next."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pipeline.joins.parts import kernels

Pages = npt.NDArray[np.int32]

PAGE_BYTES = 4 + 8 + 4 + 8  # its sales, when the first of them came, a match's winner and how long it holds
_UNKNOWN = -1


class PageDemand:
    """
    Idea
        A page is worth the sales that wait for it, times as many sales as have come since the first of these. To read
        for the most sales alone gains nothing: as by the oldest sale, each page is then read after h_S / pages of the
        sales that wait, in the mean, whatever its share of the stream. The fewest reads are those that serve of each
        page a number of sales in proportion to the square root of its share, and that is what the product leads to:
        n = q t sales wait t after the last read, and where q t * t is alike for all pages, n goes with the root of q.

        The greatest product is found by a tournament that knows of each match until when its outcome holds: a sale that
        comes or leaves, and a read, cost the logarithm of the number of pages.

    Memory
        PAGE_BYTES a page.

    Example
        >>> demand = PageDemand(4)
        >>> demand.come(np.array([2, 0, 0], np.int32))
        >>> demand.best(), demand.sales.tolist(), demand.age(0), demand.age(2)
        (0, [2, 0, 1, 0], 2, 3)
        >>> demand.come(np.array([1, 1], np.int32))  # 2 * 4, 2 * 2, 1 * 5
        >>> demand.read(0), demand.best(), demand.best(but=2)
        (1, 2, 1)
    """

    def __init__(self, pages: int) -> None:
        self.came = 0  # sales
        self.sales: Pages = np.zeros(max(1, pages), np.int32)  # of a page
        self._since = np.zeros(len(self.sales), np.int64)
        self._winner: Pages = np.zeros(len(self.sales), np.int32)  # of a match
        self._until = np.full(len(self.sales), _UNKNOWN, np.int64)

    @property
    def nbytes(self) -> int:
        return self.sales.nbytes + self._since.nbytes + self._winner.nbytes + self._until.nbytes

    def come(self, pages: Pages) -> None:
        """Sales for these pages, in the order in which they came."""
        self._know(pages)
        kernels.wanted(pages, self.came, 1, self.sales, self._since, self._until)
        self.came += len(pages)

    def move(self, pages: Pages, since: int) -> None:
        """Sales that came before wait for these pages now, and count as having come `since`."""
        self._know(pages)
        kernels.wanted(pages, since, 0, self.sales, self._since, self._until)

    def leave(self, pages: Pages) -> None:
        """Sales for these pages have left."""
        kernels.wanted_no_more(pages, self.sales, self._until)

    def read(self, page: int) -> int:
        """Nobody waits for this page any more. How many sales had come before the first that did."""
        kernels.wanted_by(page, 0, self.sales, self._until)
        return int(self._since[page])

    def age(self, page: int) -> int:
        """Sales that have come since the first one for this page, itself included."""
        return self.came - int(self._since[page])

    def best(self, but: int = -1) -> int:
        """The page that is most worth reading, but for this one."""
        if but < 0:
            return int(kernels.worth_most(self.came, self.sales, self._since, self._winner, self._until))
        waiting = self.sales[but]
        self.read(but)
        best = self.best()
        kernels.wanted_by(but, waiting, self.sales, self._until)
        return best

    def begin_anew(self) -> None:
        """Nobody waits for any page."""
        self.sales[:] = 0
        self._until[:] = _UNKNOWN

    def check(self) -> None:
        """Assert every invariant."""
        # No page has less than nobody, and the winner is the best.
        assert (self.sales >= 0).all()
        worth = self.sales * (self.came - self._since)
        assert worth[self.best()] == worth.max()

    def _know(self, pages: Pages) -> None:
        """Pages that were split have new numbers."""
        most = int(pages.max(initial=0)) + 1
        if most > len(self.sales):
            known, self.sales = self.sales, np.zeros(most, np.int32)
            self.sales[: len(known)] = known
            self._since = np.append(self._since, np.zeros(most - len(known), np.int64))
            self._winner = np.zeros(most, np.int32)
            self._until = np.full(most, _UNKNOWN, np.int64)
