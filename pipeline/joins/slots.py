"""What `partitioned` and `ssij` share: a sale waits in the slot of its page of R, and pages that were read are kept."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.joins.algorithm import OUT_OF_TURN, Algorithm, Positions, Served, Workplace, at_least, matched_rows
from pipeline.joins.cost import slots as cost
from pipeline.joins.cost.slot_reads import few_keys
from pipeline.joins.cost.slot_simulation import PATIENCE
from pipeline.joins.parts.bypage import NO_PAGE, KeysByPage
from pipeline.joins.parts.kept import KeptRows
from pipeline.joins.parts.keycodes import Codes
from pipeline.joins.parts.keyindex import Slots
from pipeline.joins.parts.pagecache import PageCache
from pipeline.joins.parts.pages import KEYS_AT_ONCE, PageDirectory
from pipeline.joins.parts.waiting import Places, WaitingSales


@dataclass(frozen=True)
class Settings:
    batch: int = 2_000  # most keys asked for by name in one query

    def __post_init__(self) -> None:
        at_least(1, batch=self.batch)


class SlotJoin(Algorithm):
    """Slots, pages and proofs; a subclass says when a page is read, and which pages are worth keeping."""

    Settings: ClassVar[type] = Settings
    least_for: ClassVar[str] = "one sale, one row and a directory of one page"
    keeps_rows: ClassVar[bool] = True

    def __init__(self, workplace: Workplace) -> None:
        super().__init__(workplace)
        self.split: cost.Split = self.model.split(self.question)
        self.settles_in = OUT_OF_TURN if self.split.reads_pages else 1
        parts, words = self.split, self.R.words
        self._few = few_keys(self.question.costs)
        self._waiting = WaitingSales(parts.h_S, words)
        self._keys = KeysByPage(parts.h_S)  # that sales wait for
        self._since = np.zeros(parts.h_S, np.int32)  # the step in which it came
        self._directory = PageDirectory(self.master, parts.d, parts.directory)
        self._cache = PageCache(parts.cache, self.R.v_R, words, workplace.max_staleness, workplace.clock)
        self._generation = 0
        self._count = np.zeros(0, np.int32)  # of a page: its waiting sales
        self._worth = np.zeros(0, np.float64)  # of a page: the least worth goes first
        self._unproved: Slots = np.empty(0, np.int32)  # keys that were not found on their page
        self._answer_bytes = 0
        self._fed = False  # whether sales came since the last step
        self._steps = 0

    def iterate(self, drain: bool) -> list[Served]:
        self._steps += 1
        fed, self._fed = self._fed, False
        return self._step(drain or not fed)

    @abstractmethod
    def _step(self, ends: bool) -> list[Served]:
        """One iteration; `ends`: no sales came since the last one, or no more will come."""

    @property
    def room(self) -> int:
        return self._waiting.room

    @property
    def pending(self) -> int:
        return len(self._waiting)

    def _wait(self, positions: Positions, codes: Codes) -> None:
        """Put sales into the slots of their pages."""
        self._number_the_pages()
        slots = self._waiting.admit(positions, codes)
        new = np.unique(slots[self._keys.page_of[slots] == NO_PAGE])
        for first in range(0, len(new), KEYS_AT_ONCE):
            some = new[first : first + KEYS_AT_ONCE]
            self._keys.put(some, self._directory.page_of(self.coder.decode(self._waiting.index.codes_of(some))))
        self._since[new] = self._steps
        np.add.at(self._count, self._keys.page_of[slots], 1)
        self.statistics.misses += len(positions)

    def _number_the_pages(self) -> None:
        """Keep up with the directory, which splits pages and, when nothing waits, may be read again."""
        if not len(self._waiting) and self._directory.outdated and self.split.reads_pages:
            self._directory.refresh()
        pages = self._directory.pages
        if self._generation != self._directory.generation:
            self._generation = self._directory.generation
            self._cache.clear()
            self._count, self._worth = np.zeros(pages, np.int32), np.zeros(pages, np.float64)
        elif len(self._count) < pages:
            more = pages - len(self._count)
            self._count = np.append(self._count, np.zeros(more, np.int32))
            self._worth = np.append(self._worth, np.zeros(more, np.float64))

    def _page_to_read(self, any_page: bool, threshold: int) -> int | None:
        """The page of a sale that waited too long, else of the fullest slot, if it is full enough or any will do."""
        if not len(self._waiting):
            return None
        oldest = self._waiting.slot[self._waiting.oldest()][0]
        if self._steps - self._since[oldest] > PATIENCE * len(self._count):
            return int(self._keys.page_of[oldest])
        fullest = int(np.argmax(self._count))
        return fullest if any_page or self._count[fullest] >= threshold else None

    def _read(self, page: int) -> list[Served]:
        """Serve the sales that wait for a page."""
        slots = self._keys.on(page)
        # What waits for a page that is kept was not found on it: only the key itself is left to ask for.
        if page in self._cache or not self.split.reads_pages:
            self._unproved = slots
            return self._prove()
        self.asked_at = self.workplace.clock()
        codes = self._waiting.index.codes_of(slots)
        also = self.coder.decode(codes) if len(slots) <= self._few else None
        rows = self._directory.read(page, also)
        self._answer_bytes = rows.nbytes
        row_codes = self.codes_of(rows)
        places, numbers = self._waiting.match(row_codes)
        served = []
        if len(places):
            self._note(page, len(places))
            kept = self._keep(page, rows, row_codes, self.asked_at)
            table, match = (rows, numbers.astype(np.int64)) if kept else matched_rows(rows, numbers)
            served.append(Served(self._release(places), table, match))
        left = slots[self._keys.page_of[slots] == page]
        if also is None:
            self._unproved = left
        elif len(left):
            served.append(self._let_go_absent(self._waiting.with_keys(left)))
        return served

    def _prove(self) -> list[Served]:
        """Ask for keys by their names: some are on another page than thought, the others are proved absent."""
        asked, self._unproved = self._unproved[: self.split.b], self._unproved[self.split.b :]
        self.asked_at = self.workplace.clock()
        rows = self.master.lookup(self.coder.decode(self._waiting.index.codes_of(asked)))
        self._answer_bytes = rows.nbytes
        sales = self._waiting.with_keys(asked)
        match = self._waiting.rows_of(sales, self.codes_of(rows))
        absent = self._let_go_absent(sales[match < 0])
        pieces = [Served(self._release(sales[match >= 0]), rows, match[match >= 0]), absent]
        return [piece for piece in pieces if len(piece.sales)]

    def _let_go_absent(self, places: Places) -> Served:
        codes = self._waiting.codes(places)
        return self.absent(self._release(places), codes)

    def _release(self, places: Places) -> Positions:
        slots = self._waiting.slot[places]
        np.subtract.at(self._count, self._keys.page_of[slots], 1)
        self._keys.drop(slots)  # every sale with this key leaves
        return self._waiting.release(places)

    @abstractmethod
    def _note(self, pages: int | npt.NDArray[np.int32], sales: int | npt.NDArray[np.int64]) -> None:
        """Sales were served from these pages: remember what the pages are worth."""

    def _keep(self, page: int, rows: pa.Table, codes: Codes, asked_at: float) -> bool:
        """Keep a page if it is worth more than those that would have to go."""
        if not self._cache.ever_fits(rows):
            return False
        while not self._cache.fits(rows):
            least = min(self._cache.pages, key=lambda kept: float(self._worth[kept]))
            if self._worth[least] >= self._worth[page]:
                return False
            self.statistics.evicted += self._cache.drop(least)
        self._cache.put(page, rows, codes, asked_at)
        return True

    def _from_cache(
        self, positions: Positions, pages: npt.NDArray[np.int32], rows: npt.NDArray[np.int32]
    ) -> list[Served]:
        """Sales whose rows are in memory, page by page."""
        self.statistics.hits += len(positions)
        order = np.argsort(pages, kind="stable")
        used, first, sales = np.unique(pages[order], return_index=True, return_counts=True)
        self._note(used, sales)
        return [
            Served(positions[some], self._cache.rows(int(page)), rows[some].astype(np.int64))
            for page, some in zip(used, np.split(order, first[1:]), strict=True)
        ]

    @property
    def kept(self) -> tuple[KeptRows, ...]:
        return (self._cache,)

    def memory_used(self) -> dict[str, int]:
        return {
            "sales": self._waiting.nbytes + self._keys.nbytes + self._since.nbytes + self.coder.nbytes,
            "directory": self._directory.nbytes + self._count.nbytes + self._worth.nbytes,
            "page": self._answer_bytes,
            "cache": self._cache.nbytes,
        }

    def check(self) -> None:
        self._waiting.check()
        self._directory.check()
        self._keys.check()
        self._cache.check()
        # A key has a page exactly as long as a sale waits for it.
        used = self._waiting.index.slots
        assert np.array_equal(np.flatnonzero(self._keys.page_of != NO_PAGE), used)
        # Each slot's count is that of its waiting sales.
        of_sales = self._keys.page_of[self._waiting.slot[self._waiting.slot < self._waiting.capacity]]
        assert np.array_equal(np.bincount(of_sales, minlength=len(self._count)), self._count)
        # Keys without proof still wait.
        assert np.isin(self._unproved, used).all()
