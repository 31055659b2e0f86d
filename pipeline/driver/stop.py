"""How a job is told to stop, also while it still starts."""

from __future__ import annotations

import signal
import threading
from typing import Any


class StoppedEarly(BaseException):
    """A signal came before the query ran: there is no batch to wait for."""


class StopSignal(threading.Event):
    """Set by SIGTERM or SIGINT. Until the query runs it also interrupts whatever the start is waiting for."""

    starting = True
    interrupted = False  # the start was

    def listen(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._came)

    def _came(self, *_: Any) -> None:
        self.set()
        if self.starting:
            self.starting, self.interrupted = False, True
            raise StoppedEarly
