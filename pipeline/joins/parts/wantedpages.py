"""The pages of R that waiting sales want: where their keys lie, which page is read next, who is asked for by name."""

from __future__ import annotations

import numpy as np

from pipeline.joins.parts.byname import ByName
from pipeline.joins.parts.bypage import NO_PAGE, KeysByPage
from pipeline.joins.parts.keyindex import Slots
from pipeline.joins.parts.pagedemand import PageDemand
from pipeline.joins.parts.pages import Pages
from pipeline.joins.parts.waiting import WaitingSales

PATIENCE = 16  # times as many sales as can wait come at most behind one, until its page is read before better ones


class WantedPages:
    """
    Idea
        The page that is read next is that of the sale that waits longest; or the best one, see PageDemand, but no sale
        waits for ever: once PATIENCE times as many sales as can wait have come behind the oldest, its page is read
        before any better one. So whoever has waited as long leaves within as many reads as sales can wait.

    Memory
        That of KeysByPage, of ByName, and, for the best page, of PageDemand.
    """

    def __init__(self, waiting: WaitingSales, pages: int, best: bool) -> None:
        self.named = ByName(waiting.capacity)
        self._waiting = waiting
        self._keys = KeysByPage(waiting.capacity)
        self._demand = PageDemand(pages) if best else None

    @property
    def nbytes(self) -> int:
        return self._keys.nbytes + self.named.nbytes + (self._demand.nbytes if self._demand else 0)

    @property
    def page_of(self) -> Pages:
        """Where a key lies, by its slot."""
        return self._keys.page_of

    def put(self, slots: Slots, pages: Pages) -> None:
        """These (distinct) keys lie on these pages."""
        self._keys.put(slots, pages)

    def come(self, slots: Slots) -> None:
        """Sales with these keys, in the order in which they came."""
        if self._demand:
            self._demand.come(self._pages(slots))

    def leave(self, slots: Slots) -> None:
        """Sales with these keys leave, and no others wait for them."""
        if self._demand:
            self._demand.leave(self._pages(slots))
        self._keys.drop(slots)
        self.named.drop(slots)

    def next(self, but: int = NO_PAGE) -> tuple[int, Slots] | None:
        """The page that is read next, and the oldest sale's key if it is there; None: only keys by name are left."""
        oldest = self._oldest(but)
        if oldest is None:
            return None
        page, own = int(self._keys.page_of[oldest]), np.array([oldest], np.int32)
        if self._demand is None or self._demand.age(page) > PATIENCE * self._waiting.capacity:
            return page, own
        best = self._demand.best(but)
        return best, own[: best == page]

    def _oldest(self, but: int) -> np.int32 | None:
        count = 1
        while True:
            slots = self._waiting.slot[self._waiting.oldest(count)]
            slots = slots[~self.named.has(slots)]
            if but != NO_PAGE:
                slots = slots[self._keys.page_of[slots] != but]
            if len(slots) or count >= len(self._waiting):
                return slots[0] if len(slots) else None
            count *= 8

    def left_on(self, page: int) -> tuple[Slots, int]:
        """The keys that still wait for a page, though it has been read, and since when."""
        left = self._keys.on(page)
        left = left[~self.named.has(left)]
        return left, self._demand.read(page) if self._demand and len(left) else 0

    def found_anew(self, slots: Slots, since: int | None = None) -> None:
        """These (distinct) keys were found on other pages; their sales wait for these since then, or from now on."""
        if self._demand:
            sales = self._waiting.slot[self._waiting.with_keys(slots)]
            self._demand.move(self._pages(sales), self._demand.came - 1 if since is None else since)

    def begin_anew(self) -> None:
        """The pages have new numbers."""
        if self._demand:
            self._demand.begin_anew()

    def _pages(self, slots: Slots) -> Pages:
        """Where these keys lie, those left out that are asked for by name."""
        return self._keys.page_of[slots[~self.named.has(slots)]]

    def check(self, under_way: Slots) -> None:
        """Assert every invariant."""
        self._keys.check()
        waiting = self._waiting.index.slots
        # Exactly the keys of waiting sales have a page.
        assert np.array_equal(np.flatnonzero(self._keys.page_of != NO_PAGE), waiting)
        self.named.check(waiting, under_way)
        if self._demand:
            self._demand.check()
            # Every sale counts where its key lies, but for those that are asked for by name.
            wanted = np.bincount(self._pages(self._waiting.slot[self._waiting.with_keys(waiting)]))
            assert np.array_equal(np.trim_zeros(wanted, "b"), np.trim_zeros(self._demand.sales, "b"))
