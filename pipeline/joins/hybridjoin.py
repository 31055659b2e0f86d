"""HYBRIDJOIN: the oldest waiting sale says which page of R is read, and the page serves all sales that want it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from pipeline.joins.algorithm import Algorithm, Positions, Served, Workplace, at_least, matched_rows
from pipeline.joins.cost import hybridjoin as cost
from pipeline.joins.cost.question import Model
from pipeline.joins.parts.bypage import NO_PAGE, KeysByPage
from pipeline.joins.parts.keycodes import Codes
from pipeline.joins.parts.keyindex import Slots
from pipeline.joins.parts.pages import KEYS_AT_ONCE, PageDirectory
from pipeline.joins.parts.waiting import WaitingSales


@dataclass(frozen=True)
class Settings:
    d: int = 0  # rows a page; 0: as the cost model finds best
    batch: int = 2_000  # most keys asked for by name in one query
    published: bool = False  # no key is asked for by name but that of the sale that waits longest

    def __post_init__(self) -> None:
        at_least(0, d=self.d)
        at_least(1, batch=self.batch)


class HybridJoin(Algorithm):
    """
    Idea
        Like MESHJOIN, share each read of R among all sales that wait. Unlike MESHJOIN, read only the page of the
        sale that waits longest. So no page is read twice while h_S sales come (theorem 1 of the paper), and no more
        pages are read than there are sales (theorem 2).

    Memory
        M = v_P + h_S * v_S, as in the paper's equation 1, and the client's directory of R's pages: see PageDirectory.
        v_P and h_S are tuned for the sales' usual distribution.

    Departures from the paper
        A page is d rows, not a page of the disk: "using the key as an index" is done by a directory of first keys. The
        paper knows no absent keys. Here the oldest sale's key is asked for by name along with its page, so its absence
        is proved whatever the collation does. Other sales that were not found on their page are asked for by name with
        the next page: they would each cost a read of the page that was just read. Not so if `published`: they wait
        until they are the oldest, and do cost a read each; so both theorems hold of keys that R has, and of the others
        the second. The w sales of line 12 come in between two steps, by one offer or by several: what leaves in an
        iteration, and what was left free before it, is the room until the next one. If fewer come, the rest of w
        stays free for the next ones, where the paper sets w to zero, or H would shrink.

    Example
        >>> from pipeline.joins import make
        >>> from pipeline.master.memory import MemoryMaster
        >>> R = MemoryMaster.of({b"ale": 1, b"bun": 2, b"cod": 3, b"dip": 4})
        >>> join = make("hybridjoin", R, memory=64_000)
        >>> join.offer(np.arange(3), pa.array([b"bun", b"elk", b"bun"], pa.binary()))
        3
        >>> [matched] = join.step()
        >>> matched.sales.tolist(), matched.rows["surrogate_key"].to_pylist(), join.pending
        ([2, 0], [2], 1)
        >>> [absent] = join.step()
        >>> absent.sales.tolist(), absent.match.tolist()
        ([1], [-1])

    Reference
        Naeem, Dobbie, Weber: HYBRIDJOIN for Near-Real-Time Data Warehousing, 2011.
    """

    name: ClassVar[str] = "hybridjoin"
    model: ClassVar[Model[Any]] = cost
    Settings: ClassVar[type] = Settings
    least_for: ClassVar[str] = "one sale, one page and its directory"

    def __init__(self, workplace: Workplace) -> None:
        super().__init__(workplace)
        self.split: cost.Split = self.model.split(self.question)
        self._waiting = WaitingSales(self.split.h_S, self.R.words)  # H and Q
        self._pages = PageDirectory(self.master, self.split.d, cost.directory_bytes(self.split.d, self.R))
        self._keys = KeysByPage(self.split.h_S)  # that sales wait for
        self._unproved: Slots = np.empty(0, np.int32)  # waiting keys that were not found on their page
        self._buffer_bytes = 0

    # Figure 5.
    #    1  While (true)
    def iterate(self, drain: bool) -> list[Served]:
        page, asked = self._next_page()
        rows = self._read(page, asked)
        served = self._probe(page, rows)
        proved_absent = asked[self._keys.page_of[asked] != NO_PAGE]
        if len(proved_absent):
            served.append(self._release_absent(proved_absent))
        if page is not None:
            self._note_unproved(page, rows)
        return served

    #    2    Take join attribute value from queue Q.
    def _next_page(self) -> tuple[int | None, Slots]:
        """The page of the sale that waits longest, and the keys to ask for by name: its own, and the unproved.

        If no key is left but such as were not found on their page, no page. As published none is unproved.
        """
        oldest = self._oldest_key()
        if oldest is None:
            most = min(self.question.settings.batch, self._pages.limit + cost.named(self.split.d))
            asked, self._unproved = self._unproved[:most], self._unproved[most:]
            return None, asked
        most = min(self.question.settings.batch, cost.named(self.split.d)) - 1
        asked, self._unproved = np.append(self._unproved[:most], oldest), self._unproved[most:]
        return int(self._keys.page_of[oldest]), asked

    def _oldest_key(self) -> np.int32 | None:
        oldest: np.int32 = self._waiting.slot[self._waiting.oldest()][0]
        if not len(self._unproved) or oldest not in self._unproved:
            return oldest
        others = self._waiting.slot[self._waiting.oldest(len(self._waiting))]
        others = others[~np.isin(others, self._unproved)]
        return others[0] if len(others) else None

    #    3    Read a page p of R into disk buffer using dequeued value as an index.
    def _read(self, page: int | None, asked: Slots) -> pa.Table:
        self.asked_at = self.workplace.clock()
        keys = self.coder.decode(self._waiting.index.codes_of(asked))
        rows = self.master.lookup(keys) if page is None else self._pages.read(page, keys)
        self._buffer_bytes = rows.nbytes
        return rows

    #    4    For each tuple r in pages p
    #    5      If r in H
    #    6        Output r join H
    #    7        Delete the matched tuple from H and corresponding node from Q.
    #    8        w <- w + 1
    #    9      EndIf
    #   10    EndFor
    def _probe(self, page: int | None, rows: pa.Table) -> list[Served]:
        codes = self.codes_of(rows)
        places, numbers = self._waiting.match(codes)
        self._buffer_bytes += codes.nbytes
        if not len(places):
            return []
        rows, match = matched_rows(rows, numbers)
        self._buffer_bytes += rows.nbytes
        self._leave(self._waiting.slot[places])
        return [Served(self._waiting.release(places), rows, match)]

    def _leave(self, slots: Slots) -> None:
        """No sale waits for these keys any more."""
        self._keys.drop(slots)
        if len(self._unproved):
            self._unproved = self._unproved[self._keys.page_of[self._unproved] != NO_PAGE]

    def _release_absent(self, slots: Slots) -> Served:
        places = self._waiting.with_keys(slots)
        codes = self._waiting.codes(places)
        self._leave(slots)
        return self.absent(self._waiting.release(places), codes)

    def _note_unproved(self, page: int, rows: pa.Table) -> None:
        """A key that still waits for the page that was read is not on it, or behind the rows that were read of it."""
        left = self._keys.on(page)
        if not len(left):
            return
        if len(rows) >= self._pages.limit:
            self._find_pages(left)
        elif not self.question.settings.published:
            self._unproved = np.union1d(self._unproved, left)

    #   11    If (stream available)
    #   12      Read w tuples from stream buffer and load them into H while adding their join attribute values into Q.
    #   13      Reset w to zero.
    #   14    EndIf
    def admit(self, positions: Positions, codes: Codes) -> int:
        if self._pages.outdated:
            self._pages.refresh()
            self._find_pages(self._waiting.index.slots)
        slots = self._waiting.admit(positions, codes)
        new = np.unique(slots[self._keys.page_of[slots] == NO_PAGE])
        if len(new):
            self._find_pages(new)
        self.statistics.misses += len(positions)
        return len(positions)

    def _find_pages(self, slots: Slots) -> None:
        for first in range(0, len(slots), KEYS_AT_ONCE):
            some = slots[first : first + KEYS_AT_ONCE]
            self._keys.put(some, self._pages.page_of(self.coder.decode(self._waiting.index.codes_of(some))))

    @property
    def room(self) -> int:
        return self._waiting.room

    @property
    def pending(self) -> int:
        return len(self._waiting)

    def memory_used(self) -> dict[str, int]:
        return {
            "sales": self._waiting.nbytes + self._keys.nbytes + self._unproved.nbytes + self.coder.nbytes,
            "page": self._buffer_bytes,
            "directory": self._pages.nbytes,
        }

    def check(self) -> None:
        self._waiting.check()
        self._pages.check()
        self._keys.check()
        waiting = self._waiting.index.slots
        # Exactly the keys of waiting sales have a page.
        assert np.array_equal(np.flatnonzero(self._keys.page_of != NO_PAGE), waiting)
        # No key is to be asked for that no sale waits for, nor twice.
        assert np.isin(self._unproved, waiting).all()
        assert len(np.unique(self._unproved)) == len(self._unproved)
