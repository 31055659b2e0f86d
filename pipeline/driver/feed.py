"""Follows the master's changes beside the stream, in a thread of the driver.

While the feed is down nothing is wrong, only older: `max_staleness` bounds what is kept, as it does without a feed.
When it is back it goes on where it was, or, where the server no longer has that, everything in memory is forgotten.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Protocol

from pipeline.driver.changelog import ChangeLog
from pipeline.errors import FeedRefused
from pipeline.master.feed import Changes, Feed

log = logging.getLogger("millrace.feed")

_PATIENCE = 10.0  # seconds that a start waits to know whether there is a feed
_PAUSES = (0.2, 1.0)  # seconds before it is tried again; the last one goes on, for sales may be served meanwhile
_AFTER_REFUSAL = 60.0


class Tell(Protocol):
    """Hears how the feed is."""

    def feed(self, is_up: bool, seconds_behind: float, changes: Changes) -> None: ...


class FollowedFeed:
    """The thread, and the change log that it fills."""

    def __init__(
        self, feed: Feed, tell: Tell, is_needed: bool, heard: Callable[[Changes], None] = lambda changes: None
    ) -> None:
        """`is_needed`: a start without it is refused; else a job does without, and asks again every minute. `heard` is
        told the changes after the change log."""
        self.log = ChangeLog()
        self._heard = heard
        self._feed, self._tell, self._is_needed = feed, tell, is_needed
        self._stop, self._known = threading.Event(), threading.Event()
        self._refused: FeedRefused | None = None
        self._place, self._alive_at = "", time.monotonic()
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)

    def start(self) -> None:
        self._thread.start()
        self._known.wait(_PATIENCE)
        if self._refused and self._is_needed:
            raise self._refused

    def close(self) -> None:
        """It looks up at each heartbeat of the server's."""
        self._stop.set()
        self._thread.join(_PATIENCE)

    def _run(self) -> None:
        failures = 0
        while not self._stop.is_set():
            lived_until = self._alive_at
            try:
                self._follow()
            except FeedRefused as error:
                if self._refused is None and not self._is_needed:
                    log.warning("%s Until then a master row may be as old as max_staleness says.", error)
                self._refused, self._place, pause = error, "", _AFTER_REFUSAL
            except Exception as error:  # noqa: BLE001 of the network or the server: it is tried again for ever
                failures = 0 if self._alive_at > lived_until else failures + 1
                if failures <= 1:
                    log.warning("the feed of master changes broke off, and is tried again: %s", error)
                pause = _PAUSES[min(failures, len(_PAUSES) - 1)]
            else:
                return
            self._tell.feed(False, time.monotonic() - self._alive_at, Changes())
            self._known.set()
            self._stop.wait(pause)

    def _follow(self) -> None:
        for changes in self._feed.follow(self._place):
            if not self._known.is_set() or self._refused:
                log.info("following the changes of the master data from %s on", changes.place)
            self._refused = None
            self.log.add(changes)
            self._heard(changes)
            self._place, self._alive_at = changes.place, time.monotonic()
            self._known.set()
            behind = max(0.0, time.time() - changes.at) if changes.at else 0.0
            self._tell.feed(True, behind, changes)
            if self._stop.is_set():
                return
