"""How many statements a worker begins in a second."""

from __future__ import annotations

from collections.abc import Callable


class Pace:
    """Lets `per_second` statements begin in a second, evenly; 0: as many as may come."""

    def __init__(self, per_second: float, clock: Callable[[], float], sleep: Callable[[float], None]) -> None:
        self._gap = 1 / per_second if per_second else 0.0
        self._clock = clock
        self._sleep = sleep
        self._next = float("-inf")

    def wait(self) -> None:
        if not self._gap:
            return
        while (early := self._next - self._clock()) > 0:
            self._sleep(early)
        self._next = self._clock() + self._gap
