"""What the feed has told, until all workers know it: the driver's side of `pipeline.news`."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pipeline.master.feed import Changes, together
from pipeline.news import News

SETTLES = 1.0  # seconds from a change in the log until every read sees it, generously
_ABSENT = 120.0  # seconds without a batch after which nobody waits for a worker; Spark ends idle ones after 60
_MOST_KEYS = 50_000  # that are told at once; whoever does not know what was before these forgets everything


@dataclass(frozen=True)
class _Entry:
    number: int
    at: float
    changes: Changes
    size: int


@dataclass
class _Worker:
    known: int
    seen_at: float


class ChangeLog:
    """
    Example
        >>> import pyarrow as pa
        >>> now = [0.0]
        >>> log = ChangeLog(clock=lambda: now[0])
        >>> log.news().keys
        {}
        >>> log.add(Changes({"product": pa.array([7])}))
        >>> for now[0] in (0.1, 1.2, 1.3):
        ...     news = log.news()
        ...     print({name: keys.to_pylist() for name, keys in news.keys.items()}, news.settled)
        ...     log.heard(["a worker"], news)
        {'product': [7]} -1
        {'product': [7]} 0
        {} 0
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._entries: deque[_Entry] = deque()
        self._next = 0
        self._places: deque[tuple[float, str]] = deque()  # told, and when: the newest that has settled, and all since
        self._was_asked = False
        self._altered: Counter[str] = Counter()
        self._told_until: dict[str, float] = {}
        self._workers: dict[str, _Worker] = {}
        self._lock = threading.Lock()

    def add(self, changes: Changes) -> None:
        with self._lock:
            self._places.append((self._clock(), changes.place))
            self._settled_place(self._clock())
            self._altered.update(changes.altered)
            self._told_until |= changes.told_until
            # Before the first batch no worker has anything to forget.
            if self._was_asked and (changes.keys or changes.all_of):
                size = max(1, sum(map(len, changes.keys.values())))
                self._entries.append(_Entry(self._next, self._clock(), changes, size))
                self._next += 1
                self._bound()

    def news(self) -> News:
        """For the next batch."""
        with self._lock:
            self._was_asked, now = True, self._clock()
            self._let_go(now)
            first = self._entries[0].number if self._entries else self._next
            settled = max((entry.number for entry in self._entries if now - entry.at >= SETTLES), default=first - 1)
            told = together(entry.changes for entry in self._entries)
            altered, place = dict(self._altered), self._settled_place(now)
            return News(first, settled, told.keys, told.all_of, altered, place, dict(self._told_until))

    def heard(self, workers: Iterable[str], news: News) -> None:
        """These took part in a batch that had the news, and the batch succeeded."""
        with self._lock:
            self._workers |= {name: _Worker(news.settled, self._clock()) for name in workers}

    def _settled_place(self, now: float) -> str:
        """Every read sees what the log has up to here. In its first second a feed has said nothing older than its
        beginning, which was in the log before anybody followed it."""
        while len(self._places) > 1 and now - self._places[1][0] >= SETTLES:
            self._places.popleft()
        return self._places[0][1] if self._places else ""

    def _let_go(self, now: float) -> None:
        """What everybody knows; and those who have not been seen for long."""
        self._workers = {name: worker for name, worker in self._workers.items() if now - worker.seen_at < _ABSENT}
        known = min((worker.known for worker in self._workers.values()), default=-1)
        while self._entries and self._entries[0].number <= known:
            self._entries.popleft()

    def _bound(self) -> None:
        size = sum(entry.size for entry in self._entries)
        while size > _MOST_KEYS and len(self._entries) > 1:
            size -= self._entries.popleft().size
