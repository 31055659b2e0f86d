"""HYBRIDJOIN: the oldest waiting sale says which page of R is read, and the page serves all sales that want it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from pipeline.errors import BadSetting
from pipeline.joins.algorithm import (
    ABSENT,
    OUT_OF_TURN,
    Algorithm,
    Positions,
    Served,
    Workplace,
    at_least,
    matched_rows,
    one_of,
)
from pipeline.joins.cost import hybridjoin as cost
from pipeline.joins.cost.named_keys import named
from pipeline.joins.cost.question import Model
from pipeline.joins.parts.bypage import NO_PAGE
from pipeline.joins.parts.keycodes import Codes
from pipeline.joins.parts.keyindex import Slots
from pipeline.joins.parts.pages import KEYS_AT_ONCE, PageDirectory, PageRead, Pages
from pipeline.joins.parts.waiting import WaitingSales
from pipeline.joins.parts.wantedpages import WantedPages


@dataclass(frozen=True)
class Settings:
    d: int = 0  # rows a page; 0: as the cost model finds best
    batch: int = 2_000  # most keys asked for by name in one query
    next: str = "oldest"  # the page that is read: that of the sale that waits longest, or the "best", see PageDemand
    buffers: int = 1  # 2: while the rows of one page are looked up, the next page is on its way
    published: bool = False  # no key is asked for by name but that of the sale that waits longest

    def __post_init__(self) -> None:
        at_least(0, d=self.d)
        at_least(1, batch=self.batch)
        one_of(("oldest", "best"), next=self.next)
        one_of((1, 2), buffers=self.buffers)
        if self.published and (self.next, self.buffers) != ("oldest", 1):
            raise BadSetting(
                f"next = {self.next!r} and buffers = {self.buffers} are none of the paper's: published = true needs "
                "next = 'oldest' and buffers = 1.",
                about=["next", "buffers", "published"],
            )


@dataclass(frozen=True)
class Read:
    """A page that was asked for, and who was asked for by name with it."""

    page: PageRead | None  # None: only keys by name, for which nobody asks before the answer is needed
    codes: Codes  # of the keys that are asked for by name
    pages: Pages  # where they were thought to lie
    asked_at: float


class HybridJoin(Algorithm):
    """
    Idea
        Like MESHJOIN, share each read of R among all sales that wait. Unlike MESHJOIN, read only the page of the
        sale that waits longest. So no page is read twice while h_S sales come (theorem 1 of the paper), and no more
        pages are read than there are sales (theorem 2).

    Memory
        M = v_P + h_S * v_S, as in the paper's equation 1, and the client's directory of R's pages: see PageDirectory.
        v_P and h_S are tuned for the sales' usual distribution. A second buffer takes a second v_P.

    Departures from the paper
        A page is d rows, not a page of the disk: "using the key as an index" is done by a directory of first keys. The
        paper knows no absent keys. Here the oldest sale's key is asked for by name along with its page, so its absence
        is proved whatever the collation does; others that were not found on their page are asked for by name with the
        next page, or each would cost a read of the page that was just read. If `published`, they wait until they are
        the oldest, and do cost a read each: so theorem 1 holds of keys that R has, theorem 2 of all. The w sales of
        line 12 come in between two steps, by one offer or several; if fewer come, the rest of w stays free, where the
        paper sets w to zero. Not the paper's are `next` = "best", see PageDemand (that another sale than the oldest
        should say which page is read is from Naeem et al., DaWaK 2014, of which we have the abstract: the rule is
        ours), and `buffers` = 2, as we read the abstract of Queue+Stack Hybrid Join (IEEE Access 2021): the next page
        is asked for before the rows of this one are looked up, and serves who comes meanwhile too, if it is no older
        than the staleness allows; nothing is read ahead where that allows none.

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
    settles_in = OUT_OF_TURN

    def __init__(self, workplace: Workplace) -> None:
        super().__init__(workplace)
        self.split: cost.Split = self.model.split(self.question)
        self._waiting = WaitingSales(self.split.h_S, self.R.words)  # H and Q
        self._pages = PageDirectory(self.master, self.split.d, cost.directory_bytes(self.split.d, self.R))
        pages = cost.pages(self.split.d, self.R)
        self._wanted = WantedPages(self._waiting, pages, best=self.question.settings.next == "best")
        self._fresh = min(workplace.max_staleness, workplace.absent_staleness)  # seconds for which an answer is good
        self._reads_ahead = self.question.settings.buffers == 2 and self._fresh > 0
        self._ahead: Read | None = None
        self._buffer_bytes = 0

    # Figure 5.
    #    1  While (true)
    def iterate(self, drain: bool) -> list[Served]:
        read = self._begun()
        rows = self._answer(read)
        self._ahead = self._begin(behind=read) if self._reads_ahead else None
        served = self._probe(read, rows)
        asked = self._waiting.index.find(read.codes)
        absent = asked[asked != ABSENT]
        if len(absent):
            served.append(self._release_absent(absent))
        if read.page is not None and read.page.generation == self._pages.generation:
            self._note_unproved(read.page.page, rows)
        if self._ahead and not len(self._waiting):
            self._abandon(self._ahead)
            self._ahead = None
        return served

    def _begun(self) -> Read:
        """The read that is on its way, if there is one and its answer is not too old already."""
        read, self._ahead = self._ahead, None
        if read and self.workplace.clock() - read.asked_at > self._fresh:
            self._abandon(read)
            read = None
        read = read or self._begin()
        assert read is not None, "nobody waits"
        return read

    #    2    Take join attribute value from queue Q.
    def _begin(self, behind: Read | None = None) -> Read | None:
        """Ask for the next page, and by name for the oldest sale's key and the unproved; of these none as published.

        `behind`: a read that is in hand, and another page is wanted, if there is one. If no key is left but such as
        were not found on their page, there is no page, only keys.
        """
        batch, with_a_page = self.question.settings.batch, named(self.split.d)
        found = self._wanted.next(but=behind.page.page if behind and behind.page else NO_PAGE)
        if found:
            page, own = found
            asked = np.append(self._wanted.named.take(min(batch, with_a_page) - len(own)), own)
            return self._ask(page, asked)
        if behind:
            return None
        return self._ask(None, self._wanted.named.take(min(batch, self._pages.limit + with_a_page)))

    #    3    Read a page p of R into disk buffer using dequeued value as an index.
    def _ask(self, page: int | None, asked: Slots) -> Read:
        codes, now = self._waiting.index.codes_of(asked), self.workplace.clock()
        begun = None if page is None else self._pages.begin(page, self.coder.decode(codes))
        return Read(begun, codes, self._wanted.page_of[asked], now)

    def _answer(self, read: Read) -> pa.Table:
        self.asked_at = read.asked_at
        rows = self._pages.answer(read.page) if read.page else self.master.lookup(self.coder.decode(read.codes))
        self._buffer_bytes = rows.nbytes
        return rows

    def _abandon(self, read: Read) -> None:
        if read.page:
            read.page.under_way.abandon()
        asked = self._waiting.index.find(read.codes)
        self._wanted.named.put_back(asked[asked != ABSENT])

    #    4    For each tuple r in pages p
    #    5      If r in H
    #    6        Output r join H
    #    7        Delete the matched tuple from H and corresponding node from Q.
    #    8        w <- w + 1
    #    9      EndIf
    #   10    EndFor
    def _probe(self, read: Read, rows: pa.Table) -> list[Served]:
        codes = self.codes_of(rows)
        places, numbers = self._waiting.match(codes)
        self._buffer_bytes += codes.nbytes
        if not len(places):
            return []
        rows, match = matched_rows(rows, numbers)
        self._buffer_bytes += rows.nbytes
        self._wanted.leave(self._waiting.slot[places])
        return [Served(self._waiting.release(places), rows, match)]

    def _release_absent(self, slots: Slots) -> Served:
        places = self._waiting.with_keys(slots)
        codes = self._waiting.codes(places)
        self._wanted.leave(self._waiting.slot[places])
        return self.absent(self._waiting.release(places), codes)

    def _note_unproved(self, page: int, rows: pa.Table) -> None:
        """A key that still waits for the page that was read is not on it, or behind the rows that were read of it."""
        left, since = self._wanted.left_on(page)
        if not len(left):
            return
        if len(rows) >= self._pages.limit:
            self._find_pages(left)  # on its other half, if it was split
        if not self.question.settings.published:
            self._wanted.named.add(left[self._wanted.page_of[left] == page])
        self._wanted.found_anew(left, since)

    #   11    If (stream available)
    #   12      Read w tuples from stream buffer and load them into H while adding their join attribute values into Q.
    #   13      Reset w to zero.
    #   14    EndIf
    def admit(self, positions: Positions, codes: Codes) -> int:
        if self._pages.outdated:
            self._refresh()
        slots = self._waiting.admit(positions, codes)
        new = np.unique(slots[self._wanted.page_of[slots] == NO_PAGE])
        if len(new):
            self._find_pages(new)
        self._wanted.come(slots)
        self.statistics.misses += len(positions)
        return len(positions)

    def _refresh(self) -> None:
        waiting = self._waiting.index.slots
        self._pages.refresh()
        self._wanted.begin_anew()
        self._find_pages(waiting)
        self._wanted.found_anew(waiting)

    def _find_pages(self, slots: Slots) -> None:
        for first in range(0, len(slots), KEYS_AT_ONCE):
            some = slots[first : first + KEYS_AT_ONCE]
            self._wanted.put(some, self._pages.page_of(self.coder.decode(self._waiting.index.codes_of(some))))

    @property
    def room(self) -> int:
        return self._waiting.room

    @property
    def pending(self) -> int:
        return len(self._waiting)

    def memory_used(self) -> dict[str, int]:
        return {
            "sales": self._waiting.nbytes + self._wanted.nbytes + self.coder.nbytes,
            "page": self._buffer_bytes + int(self.split.d * self.R.v_R) * (self._ahead is not None),
            "directory": self._pages.nbytes,
        }

    def check(self) -> None:
        self._waiting.check()
        self._pages.check()
        self._wanted.check(self._waiting.index.find(self._ahead.codes) if self._ahead else np.empty(0, np.int32))
