"""What the feed has told and nobody has acted upon yet, until it may be."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace

from pipeline.driver.changelog import SETTLES
from pipeline.master.feed import Changes, together

_MOST_KEYS = 100_000  # that wait; beyond them it is "all of it"


class Told:
    """
    Example
        >>> now = [10.0]
        >>> told = Told(clock=lambda: now[0])
        >>> told.add(Changes(all_of=frozenset({"product"})))
        >>> now[0] = 20.0
        >>> [*told.due(began=10.5).all_of], [*told.due(began=None).all_of], [*told.due(began=None).all_of]
        ([], ['product'], [])
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._waiting: deque[tuple[float, Changes]] = deque()
        self._keys = 0
        self._place = ""  # of the last that was due
        self._lock = threading.Lock()

    def add(self, changes: Changes) -> None:
        size = sum(map(len, changes.keys.values()))
        with self._lock:
            if self._keys + size > _MOST_KEYS:
                waiting = together([*(earlier for _, earlier in self._waiting), changes])
                changes = replace(changes, keys={}, all_of=waiting.all_of | waiting.keys.keys())
                self._waiting.clear()
                self._keys = size = 0
            self._waiting.append((self._clock(), changes))
            self._keys += size

    def due(self, began: float | None) -> Changes:
        """What every read sees that begins now, and that no sale in hand was joined without: of the batches that are
        not committed the first one began at this time; None: there is none."""
        settled = (self._clock() if began is None else began) - SETTLES
        due = []
        with self._lock:
            while self._waiting and self._waiting[0][0] <= settled:
                _, changes = self._waiting.popleft()
                self._keys -= sum(map(len, changes.keys.values()))
                self._place = changes.place
                due.append(changes)
            return replace(together(due), place=self._place)
