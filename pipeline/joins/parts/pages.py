"""The upper levels of the index on R, kept by the client: which page a key is on, and how to read that page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.master.port import Master, UnderWay

Pages = npt.NDArray[np.int32]

_NONE = -1  # the page after the last one
_SLACK, _LEAST_SLACK = 0.125, 4  # room for pages that are split: a share of all, and so many at least
KEYS_AT_ONCE = 1_024  # whose pages a caller should ask for together: texts take several times their size on the way
_ORDERED_AT_ONCE = 256  # keys; to find out how a text sorts takes several times its size
_SORTED_TEXT = 32  # bytes of a text that `master.order` looks at


@dataclass(frozen=True)
class PageRead:
    """The read of a page under way."""

    page: int
    generation: int  # of the directory: while it is the same, the page's number is
    under_way: UnderWay[pa.Table]


class PageDirectory:
    """
    Idea
        R is cut into pages of d rows, known by their first keys; page 0 begins before every key. The pages are fixed,
        so that what was read with a page need not be read again with its neighbour. A page that has grown to 2 d rows
        is split in two; one that has shrunk stays.

        Where a key sorts is `master.order`'s guess. A wrong guess reads a page in vain, no more: the keys that the
        reader must know about are asked for by name in the same query, and only that proves an absence.

    Memory
        For each page the first key, where it sorts, its number and its successor, twice while the directory is read.
        When R has outgrown this, pages are read in part.

    Example
        >>> from pipeline.master.memory import MemoryMaster
        >>> R = MemoryMaster.of({b"ale": 1, b"bun": 2, b"cod": 3, b"dip": 4})
        >>> directory = PageDirectory(R, rows_a_page=2, memory=1_000)
        >>> directory.page_of(pa.array([b"aal", b"bun", b"cod", b"eel"])).tolist()
        [0, 0, 1, 1]
        >>> directory.read(1, also=pa.array([b"eel"]))["surrogate_key"].to_pylist()
        [3, 4]
    """

    def __init__(self, master: Master, rows_a_page: int, memory: float) -> None:
        self.rows_a_page = rows_a_page  # d
        self.memory = memory
        self.generation = 0  # pages keep their numbers while this stays the same
        self._master = master
        self._firsts: Any = None  # once read: of page 1, 2, ...; page 0 begins before every key
        self._next: Pages = np.empty(0, np.int32)  # the page that follows in the index's order
        self._sorted: npt.NDArray[Any] = np.empty(0)  # where the first keys sort, ascending
        self._page: Pages = np.empty(0, np.int32)  # page number `i` begins at `_sorted[i - 1]`
        self._overflows = 0  # reads since the directory was read that did not reach the end of their page
        self._patience = 0

    @staticmethod
    def bytes_for(pages: float, words: int) -> float:
        """For keys of so many words: see KeyCoder."""
        key_and_order = 8 + 8 if words == 1 else 8 * words + 4 + _SORTED_TEXT
        return 2 * ((pages + pages * _SLACK + _LEAST_SLACK) * (key_and_order + 4 + 4) + 16)

    @property
    def limit(self) -> int:
        """The most rows of a page that are read, besides those asked for by name."""
        return 2 * self.rows_a_page

    @property
    def pages(self) -> int:
        self._need()
        return len(self._next)

    @property
    def nbytes(self) -> int:
        if self._firsts is None:
            return 0
        return int(self._firsts.nbytes) + self._next.nbytes + self._sorted.nbytes + self._page.nbytes

    def page_of(self, keys: pa.Array) -> Pages:
        """The page on which each key probably is, if it is anywhere."""
        self._need()
        pages = np.empty(len(keys), np.int32)
        for start in range(0, len(keys), _ORDERED_AT_ONCE):
            sorts = self._master.order(keys.slice(start, _ORDERED_AT_ONCE))
            pages[start : start + len(sorts)] = self._page[np.searchsorted(self._sorted, sorts, side="right")]
        return pages

    def read(self, page: int, also: pa.Array | None = None) -> pa.Table:
        """The rows of a page, and all rows whose key is among `also` (distinct), wherever they are."""
        return self.answer(self.begin(page, also))

    def begin(self, page: int, also: pa.Array | None = None) -> PageRead:
        """As `read`, without waiting for the answer."""
        self._need()
        until = self._next[page]
        last = None if until == _NONE else self._first(until)
        begun = self._master.begin_page(self._first(page), last, self.limit, also)
        return PageRead(page, self.generation, begun)

    def answer(self, read: PageRead) -> pa.Table:
        rows = read.under_way.answer()
        if len(rows) >= self.limit and read.generation == self.generation:
            self._overflows += 1
            self._split(read.page, rows["key"])
        return rows

    @property
    def outdated(self) -> bool:
        """So many pages have grown that reading the directory again costs less than reading them did."""
        return self._overflows > self._patience

    def refresh(self) -> None:
        """Read the directory again, now. Pages get new numbers."""
        capacity = int(self.memory / 2 / (self.nbytes / self.pages))
        self._read_directory(max(self.rows_a_page, -(-self._master.statistics().rows // max(1, capacity))))

    def check(self) -> None:
        """Assert every invariant."""
        if self._firsts is None:
            return
        # The budget holds.
        assert 2 * self.nbytes <= self.memory or not len(self._firsts), (self.nbytes, self.memory)
        # Following the successors from page 0 on, every page comes by once.
        follows, seen = self._next.tolist(), [0]
        while len(seen) <= len(follows) and follows[seen[-1]] != _NONE:
            seen.append(follows[seen[-1]])
        assert np.array_equal(np.sort(seen), np.arange(self.pages))
        assert np.array_equal(np.sort(self._page), np.arange(self.pages))
        # Bisecting is allowed.
        assert (self._sorted[1:] >= self._sorted[:-1]).all()

    def _need(self) -> None:
        if self._firsts is None:
            self._read_directory(self.rows_a_page)

    def _read_directory(self, rows_a_page: int) -> None:
        self._firsts = None
        firsts = self._master.borders(rows_a_page)[1:]
        while True:
            # Where the server's order is not as guessed, the borders are sorted as guessed, and remember their pages.
            sorts = self._order(firsts)
            by_order = np.argsort(sorts, kind="stable")
            self._firsts, self._sorted = firsts, sorts[by_order]
            self._page = np.concatenate([[0], by_order + 1]).astype(np.int32)
            self._next = np.append(np.arange(1, len(firsts) + 1, dtype=np.int32), np.int32(_NONE))
            if 2 * self.nbytes <= self.memory or not len(firsts):
                break
            firsts = firsts.take(pa.array(np.arange(1, len(firsts), 2)))
        self.generation += 1
        # A refresh reads all keys; after so many overflows it reads no more than they did.
        self._overflows, self._patience = 0, self.pages

    def _first(self, page: int) -> Any | None:
        return None if page == 0 else self._firsts[page - 1].as_py()

    def _split(self, page: int, keys: pa.ChunkedArray) -> None:
        """Begin a new page in the middle of the rows that were read of a page, if there is room for one more."""
        keys = keys.combine_chunks()
        sorts = self._order(keys)
        at = int(np.flatnonzero(self._page == page)[0])
        within = np.ones(len(keys), np.bool_)
        if at > 0:
            within &= sorts > self._sorted[at - 1]
        if at < len(self._sorted):
            within &= sorts < self._sorted[at]
        rows = np.flatnonzero(within)
        if not len(rows):  # nothing by which the halves could be told apart
            return
        middle = int(rows[np.argsort(sorts[rows], kind="stable")[len(rows) // 2]])
        if 2 * (self.nbytes + keys.slice(middle, 1).nbytes + sorts.itemsize + 4 + 4) > self.memory:
            return
        new = self.pages
        self._firsts = pa.concat_arrays([self._firsts, keys.slice(middle, 1)])
        self._sorted = np.insert(self._sorted.astype(sorts.dtype, copy=False), at, sorts[middle])
        self._page = np.insert(self._page, at + 1, np.int32(new))
        self._next = np.append(self._next, self._next[page])
        self._next[page] = new

    def _order(self, keys: pa.Array) -> npt.NDArray[Any]:
        if len(keys) <= _ORDERED_AT_ONCE:
            return self._master.order(keys)
        starts = range(0, len(keys), _ORDERED_AT_ONCE)
        return np.concatenate([self._master.order(keys.slice(start, _ORDERED_AT_ONCE)) for start in starts])
