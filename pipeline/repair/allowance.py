"""So many facts a minute, whichever minute one looks at."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

_MINUTE = 60.0


class Allowance:
    """
    Example
        >>> now = [0.0]
        >>> allowance = Allowance(100, clock=lambda: now[0])
        >>> allowance.spend(70)
        >>> now[0] = 30.0
        >>> allowance.left()
        30
        >>> allowance.spend(30)
        >>> now[0] = 60.0
        >>> allowance.left()
        70
    """

    def __init__(self, a_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._a_minute, self._clock = a_minute, clock
        self._spent: deque[tuple[float, int]] = deque()

    def left(self) -> int:
        while self._spent and self._spent[0][0] <= self._clock() - _MINUTE:
            self._spent.popleft()
        return self._a_minute - sum(facts for _, facts in self._spent)

    def spend(self, facts: int) -> None:
        self._spent.append((self._clock(), facts))
