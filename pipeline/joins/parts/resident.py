"""Pages of R that stay in memory: those whose rows are observed to be wanted most."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.joins.parts.kept import KeptRows, index_of, slots_of
from pipeline.joins.parts.keycodes import Codes, KeyCoder
from pipeline.joins.parts.keyindex import ABSENT, KeyIndex
from pipeline.joins.parts.page_uses import PageUses

RowNumbers = npt.NDArray[np.int32]

_FORGOTTEN = -1  # the page of a row that is no longer found, until the rows are copied anew
_NEW_SHARE = 8  # newcomers wait until they are one part of so many of all rows: each change copies them all
_SOON = 0.05  # of its life is left to a page: it goes with those that must go now


@dataclass(frozen=True)
class _Page:
    number: int
    rows: pa.Table
    read_at: float


class ResidentPages(KeptRows):
    """
    Idea
        Each page of R has a counter of the sales it served, halved at intervals. A page that was read is kept if there
        is room, or if it has served more sales than the least used page kept, by more than chance explains: two
        standard deviations. Rows older than `max_staleness` are forgotten.

    Memory
        For C rows: their bytes twice and one part in eight, while the pages kept are changed; a KeyIndex and one more
        code a row; 8 bytes a row for its page and its place; 8 bytes for each page of R.

    Example
        >>> rows = pa.table({"key": pa.array([3, 4]), "surrogate_key": pa.array([30, 40])})
        >>> kept = ResidentPages(rows.schema, KeyCoder(pa.int64(), 8), rows=2, row_bytes=16, pages=9, clock=lambda: 0.0)
        >>> kept.observe(7, sales=5)
        >>> kept.consider(7, 5, rows, read_at=0.0)
        >>> kept.settle()
        >>> kept.find(np.array([[4], [5]], np.uint64)).tolist(), kept.holds(np.array([6, 7])).tolist()
        ([1, -1], [False, True])
        >>> kept.forget(np.array([[4]], np.uint64))
        >>> kept.find(np.array([[3], [4]], np.uint64)).tolist(), kept.holds(np.array([7])).tolist()
        ([0, -1], [False])
    """

    def __init__(
        self,
        schema: pa.Schema,
        coder: KeyCoder,
        rows: int,
        row_bytes: float,
        pages: int,
        clock: Callable[[], float],
        max_staleness: float = 300.0,
        waiting: int = 0,
    ) -> None:
        self.capacity = rows
        self.evicted = 0
        self.table: pa.Table = schema.empty_table()
        self._coder, self._clock, self._life = coder, clock, max_staleness
        self._most_bytes = rows * row_bytes
        self._index = KeyIndex(rows, coder.words)
        self._row = np.zeros(max(1, rows), np.int32)  # of a slot of the index
        self._page_of = np.empty(0, np.int32)  # of a row of the table
        self._kept: list[_Page] = []
        self._new: dict[int, _Page] = {}
        self._uses = PageUses(pages, waiting)
        self._is_kept = np.zeros(pages, np.bool_)
        self._has_grown = np.zeros(pages, np.bool_)
        self._is_full, self._oldest = False, np.inf

    @staticmethod
    def bytes_for(rows: int, pages: int, row_bytes: float, words: int) -> float:
        own = rows * ((2 + 1 / _NEW_SHARE) * row_bytes + 8 * words + 8)
        return own + KeyIndex.bytes_for(rows, words) + 8 * pages

    def __len__(self) -> int:
        return len(self._index)

    @property
    def nbytes(self) -> int:
        own = self._row.nbytes + self._page_of.nbytes + self._uses.of.nbytes + 2 * self._is_kept.nbytes
        tables = (self.table, *(page.rows for page in self._new.values()))
        return sum(int(rows.nbytes) for rows in tables) + self._index.nbytes + own

    def find(self, codes: Codes) -> RowNumbers:
        """For each key its row in `table`, or ABSENT. Rows that have become too old are forgotten first."""
        if self._oldest + self._life <= self._clock():
            self._change([page for page in self._remaining() if self._is_fresh(page)])
            self._is_full = False
        slots = self._index.find(codes)
        found: RowNumbers = self._row[slots]
        found[slots < 0] = ABSENT
        return found

    def use(self, rows: RowNumbers) -> None:
        """Count sales that were served by these rows."""
        self._uses.count(self._page_of[rows])

    def observe(self, page: int, sales: int) -> None:
        """Count sales that were served by a page that had to be read."""
        self._grow(page)
        self._uses.count_at(page, sales)

    def holds(self, pages: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
        """Whether a page is kept, with all its rows as far as one knows."""
        known = np.minimum(pages, len(self._is_kept) - 1)
        held: npt.NDArray[np.bool_] = self._is_kept[known] & ~self._has_grown[known] & (known == pages)
        return held

    def distrust(self, pages: npt.NDArray[np.int32]) -> None:
        """These pages, if kept, have rows that are not among those kept: until they are read again."""
        self._has_grown[pages[self.holds(pages)]] = True

    def consider(self, page: int, sales: int, rows: pa.Table, read_at: float) -> None:
        """A page was read as a whole, and served these sales at once: keep it if it is worth it.

        What a page that is kept serves is counted as it comes, what another serves when it is read: so this last time
        does not speak for it yet.
        """
        self._grow(page)
        if not len(rows) or len(rows) > self.capacity or rows.nbytes > self._most_bytes:
            return
        if self._is_full and not self._is_kept[page]:
            uses = max(0.0, float(self._uses.of[page]) - sales)
            least = float(self._uses.of[self._is_kept].min(initial=np.inf))
            if uses - least <= 2 * np.sqrt(uses + least):
                return
        self._has_grown[page] = False
        self._new[page] = _Page(page, rows, read_at)
        new = self._new.values()
        if (
            sum(len(page.rows) for page in new) * _NEW_SHARE >= self.capacity
            or sum(page.rows.nbytes for page in new) * _NEW_SHARE >= self._most_bytes
        ):
            self.settle()

    def settle(self) -> None:
        """Let the pages that were found worth it take the places of the least used ones."""
        if not self._new:
            return
        new, self._new = self._new, {}
        candidates = [page for page in self._remaining() if page.number not in new] + list(new.values())
        candidates.sort(key=lambda page: -self._uses.of[page.number])
        chosen: list[_Page] = []
        rows = row_bytes = 0
        for page in filter(self._is_fresh, candidates):
            if rows + len(page.rows) <= self.capacity and row_bytes + page.rows.nbytes <= self._most_bytes:
                chosen.append(page)
                rows += len(page.rows)
                row_bytes += page.rows.nbytes
        self._is_full = len(chosen) < len(candidates)
        self._change(chosen)

    def forget(self, codes: Codes) -> None:
        """The pages of forgotten keys stay, for their other rows, but are not whole any more: see `holds`."""
        slots, gone = slots_of(codes, self._index), index_of(codes)
        if len(slots):
            rows = self._row[slots]
            if len(self._index) < np.count_nonzero(self._page_of != _FORGOTTEN):  # a page was split: a key has two rows
                rows = np.flatnonzero(gone.find(self._codes(self.table)) != ABSENT).astype(np.int32)
            pages = self._page_of[rows]
            self._has_grown[pages[pages != _FORGOTTEN]] = True
            self._page_of[rows] = _FORGOTTEN
            self._index.remove(slots)
        for page in list(self._new.values()):
            stays = gone.find(self._codes(page.rows)) == ABSENT
            if not stays.all():
                self._new[page.number] = replace(page, rows=page.rows.filter(pa.array(stays)))
                self._has_grown[page.number] = True

    def begin_anew(self, pages: int) -> None:
        """Nothing is kept or counted, and the directory has so many pages."""
        self._uses.begin_anew(pages)
        self._is_kept = np.zeros(pages, np.bool_)
        self._has_grown = np.zeros(pages, np.bool_)
        self.clear()

    def clear(self) -> None:
        """Nothing is kept; what was counted stays, and says which pages to keep next."""
        self._new = {}
        self._is_kept[:] = self._has_grown[:] = False
        self._is_full = False
        self._change([])

    def check(self) -> None:
        """Assert every invariant."""
        # A row that is not forgotten is found under its key, or another with that key is; a forgotten one is not.
        codes, there = self._codes(self.table), self._page_of != _FORGOTTEN
        slots = self._index.find(codes)
        assert (slots[~there] == ABSENT).all()
        assert (slots[there] != ABSENT).all()
        assert (codes[self._row[slots[there]]] == codes[there]).all()
        assert len(self._index) == len(np.unique(slots[there]))
        # No more rows are kept than there is room for.
        assert len(self.table) <= self.capacity
        # A page is marked as kept exactly when it is.
        assert sorted(page.number for page in self._kept) == np.flatnonzero(self._is_kept).tolist()

    def _is_fresh(self, page: _Page) -> bool:
        return self._clock() - page.read_at < self._life * (1 - _SOON)

    def _change(self, chosen: list[_Page]) -> None:
        """One new table of these pages' rows; the pages then point into it."""
        stays = {page.number for page in chosen}
        self.evicted += sum(len(page.rows) for page in self._kept if page.number not in stays)
        self._kept = []
        self.table = pa.concat_tables([self.table.slice(0, 0), *(page.rows for page in chosen)]).combine_chunks()
        lengths = [len(page.rows) for page in chosen]
        starts = np.cumsum([0, *lengths])
        for page, start, length in zip(chosen, starts, lengths, strict=False):
            self._kept.append(_Page(page.number, self.table.slice(start, length), page.read_at))
        self._page_of = np.repeat(np.array([page.number for page in chosen], np.int32), lengths)
        self._oldest = min((page.read_at for page in chosen), default=np.inf)
        self._is_kept[:] = False
        self._is_kept[[page.number for page in chosen]] = True
        self._has_grown &= self._is_kept
        self._index.clear()
        codes = self._codes(self.table)
        self._row[self._index.add(codes)] = np.arange(len(codes), dtype=np.int32)

    def _remaining(self) -> list[_Page]:
        """The pages kept, without the rows that were forgotten."""
        stays = self._page_of != _FORGOTTEN
        if stays.all():
            return self._kept
        ends = np.cumsum([len(page.rows) for page in self._kept])
        of_page = zip(self._kept, np.split(stays, ends[:-1]), strict=True)
        return [page if stay.all() else replace(page, rows=_left(page.rows, stay)) for page, stay in of_page]

    def _codes(self, rows: pa.Table) -> Codes:
        return self._coder.encode(rows["key"].combine_chunks(), remember=False)

    def _grow(self, page: int) -> None:
        self._uses.grow(page)
        if page >= len(self._is_kept):
            more = np.zeros(page + 1 - len(self._is_kept), np.bool_)
            self._is_kept, self._has_grown = np.append(self._is_kept, more), np.append(self._has_grown, more)


def _left(rows: pa.Table, stay: npt.NDArray[np.bool_]) -> pa.Table:
    """The rows that stay, in runs: to be copied once only, with all others."""
    runs = np.flatnonzero(np.diff(stay, prepend=False, append=False)).reshape(-1, 2)
    return pa.concat_tables([rows.slice(0, 0), *(rows.slice(first, end - first) for first, end in runs)])
