"""Whole pages of R kept in memory, and one hash table over all their rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.joins.parts.budget import most_that_fit
from pipeline.joins.parts.kept import KeptRows, slots_of
from pipeline.joins.parts.keycodes import Codes
from pipeline.joins.parts.keyindex import ABSENT, KeyIndex, Slots


@dataclass(frozen=True)
class _Page:
    rows: pa.Table
    slots: Slots  # of the rows' keys
    expires: float
    nbytes: int


class PageCache(KeptRows):
    """
    Idea
        A page comes and goes as a whole; a key is found in one look whichever page it is on. Pages expire: none is
        kept longer than `life` seconds after it was asked for. Which page must go for another is the caller's choice.

    Memory
        The rows' own bytes, 12 bytes a row, and a KeyIndex of as many rows as fit.

    Example
        >>> cache = PageCache(memory=1_000, row_bytes=8, words=1, life=60, clock=lambda: 0.0)
        >>> codes = np.array([[7], [9]], np.uint64)
        >>> cache.put(4, pa.table({"key": [7, 9]}), codes, asked_at=0.0)
        >>> [found.tolist() for found in cache.find(np.array([[9], [8]], np.uint64))], cache.pages
        ([[4, -1], [1, -1]], [4])
        >>> cache.forget(codes[:1])
        >>> cache.find(codes)[0].tolist()
        [-1, 4]
        >>> cache.drop(4), cache.find(codes)[0].tolist()
        (2, [-1, -1])
    """

    def __init__(self, memory: float, row_bytes: float, words: int, life: float, clock: Callable[[], float]) -> None:
        self.memory = memory
        self.life = life
        self._clock = clock
        rows = self.rows_for(memory, row_bytes, words) if life > 0 else 0
        self._index = KeyIndex(max(1, rows), words)
        self._capacity = rows
        self._page_of = np.full(max(1, rows), ABSENT, np.int32)  # of a key's slot
        self._row_of = np.full(max(1, rows), ABSENT, np.int32)
        self._kept: dict[int, _Page] = {}
        self._held = 0

    @staticmethod
    def bytes_for(rows: int, row_bytes: float, words: int) -> float:
        return rows * (row_bytes + 12) + KeyIndex.bytes_for(rows, words)

    @classmethod
    def rows_for(cls, memory: float, row_bytes: float, words: int) -> int:
        """The most rows of this width that fit into so many bytes."""
        return most_that_fit(
            memory, lambda number: cls.bytes_for(number, row_bytes, words), int(memory / (row_bytes + 12))
        )

    def __len__(self) -> int:
        return len(self._index)

    @property
    def pages(self) -> list[int]:
        return list(self._kept)

    def __contains__(self, page: int) -> bool:
        return page in self._kept

    @property
    def nbytes(self) -> int:
        return self._index.nbytes + self._page_of.nbytes + self._row_of.nbytes + self._held

    def find(self, codes: Codes) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """For each key the page and the row on it, or ABSENT twice."""
        if not self._kept:
            nothing = np.full(len(codes), ABSENT, np.int32)
            return nothing, nothing
        slots = self._index.find(codes)
        there = slots >= 0
        return np.where(there, self._page_of[slots], ABSENT), np.where(there, self._row_of[slots], ABSENT)

    def rows(self, page: int) -> pa.Table:
        return self._kept[page].rows

    def ever_fits(self, rows: pa.Table) -> bool:
        """Whether a page could be kept if no other were."""
        return len(rows) <= self._capacity and self.nbytes - self._held + _bytes_of(rows) <= self.memory

    def fits(self, rows: pa.Table) -> bool:
        held = sum(len(page.slots) for page in self._kept.values())
        return held + len(rows) <= self._capacity and self.nbytes + _bytes_of(rows) <= self.memory

    def put(self, page: int, rows: pa.Table, codes: Codes, asked_at: float) -> None:
        """Keep a page that is not in the cache and fits."""
        slots = self._index.add(codes)
        # A row may be on another page too, since pages are split and rows asked for by name: the newer copy counts.
        self._page_of[slots] = page
        self._row_of[slots] = np.arange(len(rows), dtype=np.int32)
        self._kept[page] = _Page(rows, slots, asked_at + self.life, _bytes_of(rows))
        self._held += self._kept[page].nbytes

    def drop(self, page: int) -> int:
        """Let a page go; how many rows it had."""
        gone = self._kept.pop(page)
        self._remove(gone.slots[self._page_of[gone.slots] == page])
        self._held -= gone.nbytes
        return len(gone.slots)

    def forget(self, codes: Codes) -> None:
        """The page of a forgotten key stays, for its other rows; until it goes, the key must be asked for by name."""
        self._remove(slots_of(codes, self._index))

    def _remove(self, slots: Slots) -> None:
        self._page_of[slots] = ABSENT  # a slot is soon another key's, while a page still has it among its own
        self._index.remove(slots)

    def expire(self) -> None:
        """Let the pages go that are too old."""
        now = self._clock()
        for page in [page for page, kept in self._kept.items() if kept.expires <= now]:
            self.drop(page)

    def clear(self) -> None:
        for page in self.pages:
            self.drop(page)

    def check(self) -> None:
        """Assert every invariant."""
        self._index.check()
        # The budget holds.
        assert self.nbytes <= max(self.memory, PageCache.bytes_for(1, 0, self._index.codes.shape[1])), self.memory
        # A key that is found is on a page that is kept, and there in its own row.
        used = self._index.slots
        assert set(self._page_of[used].tolist()) <= set(self._kept)
        for page, kept in self._kept.items():
            mine = self._page_of[kept.slots] == page
            assert (self._row_of[kept.slots[mine]] == np.flatnonzero(mine)).all()
        assert self._held == sum(kept.nbytes for kept in self._kept.values())


def _bytes_of(rows: pa.Table) -> int:
    return int(rows.nbytes) + 4 * len(rows)
