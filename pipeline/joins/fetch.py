"""The fetching stage of `auto`: for every window of missing keys the cheapest way to get their rows."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.joins.algorithm import Algorithm, Served, Workplace, matched_rows
from pipeline.joins.cost import fetch as cost
from pipeline.joins.cost.question import Model, Question
from pipeline.joins.inlj import Settings
from pipeline.joins.parts.cycle import CyclicScan
from pipeline.joins.parts.densepages import DensePages
from pipeline.joins.parts.keycodes import Codes
from pipeline.joins.parts.keyindex import Slots
from pipeline.joins.parts.rounds import Rounds
from pipeline.joins.parts.waiting import Places, Positions, WaitingSales
from pipeline.master.port import UnderWay

_LONGEST_FLOW = 100  # queries, until the ways are compared again
_WORTH_LEARNING = 1_000  # keys, or rows: fewer tell more about the clock than about the server


class _Question(NamedTuple):
    """Keys that the server was asked for."""

    keys: Slots
    at: float
    rows: UnderWay[pa.Table]


class Fetch(Algorithm):
    """
    Idea
        A window of sales waits until it is full or nothing more comes. Then its distinct keys are fetched: all by the
        scan of R; or those that lie close together by pages, and the others by name, over several connections, the
        server working on the next answers while this one is matched. More sales come in meanwhile. The cheapest way is
        taken, by unit costs that are measured again and again. No key is asked for twice, and all are asked for in
        turn.

    Memory
        M = h_S * v_S + rows * v_R + Q (+ the directory of pages): see cost/fetch.py.

    Departures from the paper
        There is none: this is ours. The look-ups are INLJ's, the pages HYBRIDJOIN's, the scan R-MESHJOIN's.

    Example
        >>> from pipeline.joins import make
        >>> from pipeline.master.memory import MemoryMaster
        >>> R = MemoryMaster.of({b"ale": 1, b"bun": 2, b"cod": 3, b"dip": 4})
        >>> join = make("fetch", R, memory=64_000)
        >>> join.offer(np.arange(3), pa.array([b"bun", b"elk", b"bun"], pa.binary()))
        3
        >>> join.step(drain=True)  # the server has been asked, and nobody waits for it yet
        []
        >>> matched, absent = join.step(drain=True)
        >>> matched.sales.tolist(), absent.sales.tolist()
        ([2, 0], [1])

    Reference
        DESIGN, section 5.2.
    """

    name: ClassVar[str] = "fetch"
    model: ClassVar[Model[Any]] = cost
    Settings: ClassVar[type] = Settings
    least_for: ClassVar[str] = "one sale and its master row"

    def __init__(self, workplace: Workplace) -> None:
        super().__init__(workplace)
        self.split = parts = cost.split(self.question)
        self.costs = self.question.costs  # as they are learned
        self.rows = self.R.R_t  # of R, as they are counted
        self.chosen = self.statistics  # how many windows took each way
        self._waiting = WaitingSales(parts.h_S, self.R.words)
        apart = -(-self.rows // (parts.rows * parts.slots)) or 1
        self._cycle = CyclicScan(self.master, parts.rows, parts.slots, apart, ahead=True)
        directory = self.question.memory // cost.DIRECTORY_SHARE
        self._pages = DensePages(self.master, self.rows, self.R.words, max(1, parts.rows // 2), directory)
        self._rounds = Rounds(self._waiting.index)
        self._work: Iterator[list[Served]] | None = None
        self._admits = True  # sales may come in while this work goes on
        self._grows = self._draining = False  # sales came since the last step; no more will come
        self._newest, self._arrived = -1, False  # position of the last sale; it is in no segment of the scan yet
        self._looked_up = 0.0  # seconds since the join was made
        self._scan_asked_at = 0.0  # when the scan's next read was asked for, at the earliest
        self._answer_bytes = 0
        self._windows = 0

    # For every window of missing sales:
    #   1  wait while more sales come and there is room
    #   2  choose: scan; pages where many wanted keys lie, look-ups for the others         -> _cheapest
    #   3  read; match; the sales leave, others come in                     -> _scan, _read_pages, _look_up
    #   4  compare what it cost with what was thought                       -> _learn
    def iterate(self, drain: bool) -> list[Served]:
        self._draining = drain
        if self._work is None:
            if self._more_may_come():
                return []
            self._work = self._cheapest()
        served = next(self._work, None)
        if not len(self._waiting):
            next(self._work, None)  # the last word: it learns what all that cost
        if served is None or not len(self._waiting):
            self._work = None
            self._windows += 1
        return served or []

    def _more_may_come(self) -> bool:
        """Whether a read had better wait: the more sales meet it, the more it serves. A front stage takes no more than
        one offer's in a step, for it holds the hits among them.
        """
        grows, self._grows = self._grows, False
        return grows and not self._draining and bool(self._waiting.room)

    def _cheapest(self) -> Iterator[list[Served]]:
        slots = self._waiting.index.slots
        pages, rest = self._dense_pages(slots)
        by_name = self._by_name()
        mixed = self._named(len(rest)) if len(rest) else 0.0
        mixed += len(pages) * cost.page(self._pages.rows, self.costs, self.question.caps)
        if self._by_scan() < min(by_name, mixed):
            self.chosen.by_scan += 1
            yield from self._scan()
        elif len(pages) and mixed < by_name:
            self.chosen.by_pages += 1
            yield from self._read_pages(pages)
            yield from self._look_up()
        else:
            self.chosen.looked_up += 1
            yield from self._look_up()

    def _look_up(self) -> Iterator[list[Served]]:
        """Ask for the keys, a query after the other over all connections, for as long as new ones come in time."""
        under_way: deque[_Question] = deque()
        questions = self._questions()
        took, keys, asked = 0.0, 0, 0
        began = self._worked()
        try:
            under_way.extend(islice(questions, self.split.lanes))
            took += self._worked() - began
            yield []  # the server is at work: the caller may have something else to do meanwhile
            began = self._worked()
            while under_way:
                some, self.asked_at, asked_for = under_way.popleft()
                rows = asked_for.answer()
                if self.split.lanes > 1:  # the server goes on while this answer is matched
                    under_way.extend(islice(questions, 1))
                served = self._release(self._waiting.with_keys(some), rows)
                self._rounds.answered(some)
                took, keys, asked = took + self._worked() - began, keys + len(some), asked + 1
                yield served
                began = self._worked()
                under_way.extend(islice(questions, self.split.lanes - len(under_way)))
        finally:
            for left in under_way:
                left.rows.abandon()
        self._looked_up += took
        if asked > 1 and self.split.lanes > 1:
            line = self.costs.overlapped
            self._learn("overlapped", keys, took, thought=asked * line.request + keys * line.item)
        else:
            line = self.costs.lookup
            self._learn("lookup", keys, took, thought=asked * line.request + keys * (line.item + self.costs.c_K))

    def _questions(self) -> Iterator[_Question]:
        """Ask for keys that were not asked for yet; while more may come, not for much fewer of them than at first."""
        few = 0
        for _ in range(_LONGEST_FLOW):
            left = len(self._rounds.waiting())
            if not left or (left < few and not self._draining):
                return
            some = self._rounds.take(-(-left // cost.queries(left, self.split.b, self.split.lanes)))
            few = few or len(some) // 2
            keys = self.coder.decode(self._waiting.index.codes_of(some))
            yield _Question(some, self.workplace.clock(), self.master.begin_lookup(keys))

    def _scan(self) -> Iterator[list[Served]]:
        """As R-MESHJOIN, a read ahead, until looking up the remaining sales is cheaper than finishing the cycle."""
        self._arrived, self._scan_asked_at = True, self.workplace.clock()
        took, rows_read = 0.0, 0
        while True:
            began = self._worked()
            if self._arrived:
                self._cycle.enqueue(self._newest)
                self._arrived = False
            self.asked_at = self._scan_asked_at
            rows = self._cycle.read()
            self._scan_asked_at = self.workplace.clock()  # the next read may be under way since
            served = self._matched(rows)
            for last in self._cycle.complete():
                # Every row that was there throughout has been seen: a sale that still waits has none.
                served += self._release(self._waiting.up_to(last), rows.slice(0, 0))
            took, rows_read = took + self._worked() - began, rows_read + len(rows)
            if self._cycle.size is not None:
                self.rows = self._cycle.size
            if rows_read >= self.rows:
                self._learn("scan", rows_read, took, thought=cost.scan(rows_read, self.split.rows, self.costs))
                took, rows_read = 0.0, 0
            self._admits = self._cycle.takes_segment
            yield served
            while self._admits and self._more_may_come():
                yield []
            met = 0 if self._arrived else self._cycle.met_by_newest
            if not len(self._waiting) or self._by_name() < self._by_scan(met):
                break
        self._cycle.clear()
        self._admits = True

    def _by_name(self) -> float:
        return self._named(len(self._waiting.index))

    def _named(self, keys: int) -> float:
        return cost.look_ups(keys, self.split.b, self.split.lanes, self.costs, self.question.caps)

    def _by_scan(self, met: int = 0) -> float:
        """Seconds until the scan has served as many sales as wait now, the last of which have met so many rows."""
        if self._draining:
            return cost.scan(max(0, self.rows - met), self.split.rows, self.costs, self.question.caps)
        # In the mean a sale meets its row after half a cycle, and another takes its place.
        return cost.scan(self.rows, self.split.rows, self.costs, self.question.caps) / 2

    def _read_pages(self, pages: npt.NDArray[np.int32]) -> Iterator[list[Served]]:
        self._admits = False  # the page of a sale that came now might have been read already
        for page in pages.tolist():
            self.asked_at = self.workplace.clock()
            yield self._matched(self._pages.read(page))
        self._admits = True
        self._pages.refresh()

    def _matched(self, rows: pa.Table) -> list[Served]:
        """Sales that wait for one of these rows leave with it."""
        self._answer_bytes = rows.nbytes
        codes = self.codes_of(rows)
        places, numbers = self._waiting.match(codes)
        if not len(places):
            return []
        kept, match = matched_rows(rows, numbers)
        return [Served(self._waiting.release(places), kept, match)]

    def _release(self, sales: Places, rows: pa.Table) -> list[Served]:
        """These sales leave: with their row, or because there is none."""
        self._answer_bytes = rows.nbytes
        return self.leave(self._waiting, sales, rows)

    def _dense_pages(self, slots: Slots) -> tuple[npt.NDArray[np.int32], Slots]:
        """The pages that are cheaper to read than their wanted keys are to ask for, and the keys on no such page."""
        # The directory costs a pass over all keys: not before the look-ups have cost twice as much.
        if not self._pages.possible or self._looked_up < 2 * self.costs.borders * self.rows:
            return np.empty(0, np.int32), slots
        a_page = cost.page(self._pages.rows, self.costs)
        keys = self.coder.decode(self._waiting.index.codes_of(slots))
        pages, there = self._pages.of(keys, least=a_page / self.costs.overlapped.item)
        return pages, slots[~there]

    def _worked(self) -> float:
        """The time, without what went by waiting for the load contract: the ways are compared with that beside."""
        return self.workplace.clock() - sum(count.waited for count in self.master.reads.by_kind.values())

    def _learn(self, way: str, items: int, took: float, thought: float) -> None:
        """The first window's look-ups opened the connections: no lesson."""
        if items >= _WORTH_LEARNING and (self._windows or way == "scan"):
            self.costs = self.costs.learned(way, (took - thought) / items)

    def admit(self, positions: Positions, codes: Codes) -> int:
        self._waiting.admit(positions, codes)
        self.statistics.misses += len(positions)
        if len(positions):
            self._grows = self._arrived = True
            self._newest = int(positions[-1])
        return len(positions)

    @property
    def room(self) -> int:
        return self._waiting.room if self._admits else 0

    @property
    def pending(self) -> int:
        return len(self._waiting)

    def waiting_with(self, codes: Codes) -> npt.NDArray[np.int64]:
        return self._waiting.number_with(codes)

    @property
    def seen(self) -> Question[Any]:
        return replace(self.question, costs=self.costs)

    def memory_used(self) -> dict[str, int]:
        sales, directory = self._waiting.nbytes + self._rounds.nbytes + self.coder.nbytes, self._pages.nbytes
        return {"sales": sales, "answers": self._answer_bytes, "directory": directory, "Q": self._cycle.nbytes}

    def check(self) -> None:
        self._waiting.check()
        self._cycle.check()
