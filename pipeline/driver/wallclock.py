"""Whether somebody has set the machine's clock back.

Spark waits for the next micro-batch until the wall clock says that it is time. When that is set back by an hour, while
Spark waits or a batch runs, the next batch comes an hour late; so the query is begun anew then.
"""

from __future__ import annotations

import time
from collections.abc import Callable

FAR = 5.0  # seconds; by less than that the next batch may as well come later


class WallClock:
    """
    Example
        >>> wall, steady = [1_000.0], [7.0]
        >>> clock = WallClock(lambda: wall[0], lambda: steady[0])
        >>> said = []
        >>> for wall[0], steady[0] in (1_001.0, 8.0), (4_602.0, 9.0), (1_003.0, 10.0), (1_004.0, 11.0):
        ...     said.append(clock.set_back())
        >>> said
        [0.0, 0.0, 3600.0, 0.0]
        >>> wall[0] = 4_604.0
        >>> clock.look()  # a batch begins, by which Spark reckons
        >>> wall[0] = 1_004.0
        >>> clock.set_back()
        3600.0
    """

    def __init__(self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic) -> None:
        self._wall, self._steady = wall, steady
        self._apart = wall() - steady()  # the most since it was asked last

    def look(self) -> None:
        """For who may ask too late: between two questions a clock can be set forward and back."""
        self._apart = max(self._apart, self._wall() - self._steady())

    def set_back(self) -> float:
        """By how many seconds, since this was asked last; 0 for as little as clocks are corrected by all the time."""
        before, self._apart = self._apart, self._wall() - self._steady()
        back = before - self._apart
        return back if back >= FAR else 0.0
