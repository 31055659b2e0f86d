"""How long a broken connection is tried again."""

from __future__ import annotations

import logging
import threading
import time

from pipeline.config.measures import Seconds
from pipeline.errors import MasterReadFailed

log = logging.getLogger("millrace.history")

_PAUSES = (0.2, 1.0, 5.0)  # seconds before the next attempt; the last one goes on


class Patience:
    def __init__(self, name: str, retry_for: Seconds | None, stop: threading.Event) -> None:
        """`retry_for`: None means for ever."""
        self._name, self._retry_for, self._stop = name, retry_for, stop
        self.renew()

    def renew(self) -> None:
        """It works."""
        self._failures, self._since = 0, time.monotonic()

    def wait(self, error: Exception) -> None:
        """Before the next attempt. Raises when it is over, or when the sync is to stop."""
        if not self._failures:
            self._since = time.monotonic()
            log.warning("%s: the master's log cannot be followed, and is tried again: %s", self._name, error)
        if self._retry_for is not None and time.monotonic() - self._since >= self._retry_for:
            raise MasterReadFailed(
                f"{self._name}: the master's log cannot be followed: {error}. It was tried for {self._retry_for}. What "
                f"is committed stays so: bring the server back, and run it again."
            ) from error
        self._failures += 1
        if self._stop.wait(_PAUSES[min(self._failures, len(_PAUSES)) - 1]) and self._retry_for is not None:
            raise MasterReadFailed(f"{self._name}: stopped while the master's log could not be followed: {error}.")
