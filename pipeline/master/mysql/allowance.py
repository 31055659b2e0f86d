"""What a worker may still ask of the server, by its share of the load contract: see `pipeline/master/share.py`."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from pipeline.master.share import Share, Used, in_slices


class _Answered(NamedTuple):
    at: float
    statements: int
    rows: int


class Allowance:
    """Counts what is asked against a share. A statement counts with the most rows that it may bring until its answer is
    here, then with those that came: what it did not need is free at once, and the rest a period later."""

    def __init__(self, share: Share, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.begin(share)

    def begin(self, share: Share) -> None:
        """Another share; nothing may be under way."""
        now = self._clock()
        self.share = share
        self._answered = deque(
            _Answered(now - one.ago, one.statements, one.rows)
            for one in reversed(share.used)  # the oldest first
        )
        self._statements = sum(one.statements for one in self._answered)  # that count now, with those under way
        self._rows = sum(one.rows for one in self._answered)

    def early(self, rows: int) -> float:
        """Seconds until a statement that may bring so many rows may be sent; infinite: an answer has to come first."""
        now, share = self._clock(), self.share
        while self._answered and self._answered[0].at + share.period <= now:
            self._forget(self._answered.popleft())
        statements = self._statements + 1 - share.statements if share.statements else 0
        brought = self._rows + self._bounded(rows) - share.rows if share.rows else 0
        if statements <= 0 and brought <= 0:
            return 0.0
        for one in self._answered:
            statements, brought = statements - one.statements, brought - one.rows
            if statements <= 0 and brought <= 0:
                return one.at + share.period - now
        return math.inf

    def take(self, rows: int) -> Taken:
        self._statements += 1
        self._rows += self._bounded(rows)
        return Taken(self, self._bounded(rows))

    def answered(self, bound: int, rows: int) -> None:
        self._rows += rows - bound
        self._answered.append(_Answered(self._clock(), 1, rows))
        if not (self.share.statements or self.share.rows):
            self._forget(self._answered.pop())

    def used(self) -> list[Used]:
        """What still counts, for whoever asks next."""
        now = self._clock()
        still = (one for one in self._answered if one.at + self.share.period > now)
        return in_slices((Used(now - one.at, one.statements, one.rows) for one in still), self.share.period)

    def _bounded(self, rows: int) -> int:
        """A description of a table is one read, however small the share."""
        return min(rows, self.share.rows) if self.share.rows else rows

    def _forget(self, one: _Answered) -> None:
        self._statements -= one.statements
        self._rows -= one.rows


class Taken:
    """A statement that was let begin."""

    def __init__(self, allowance: Allowance, rows: int) -> None:
        self._allowance: Allowance | None = allowance
        self._rows = rows

    def answered(self, rows: int | None = None) -> None:
        """Its answer is here, or (None) will never be, and nobody knows how much of it the server has sent."""
        allowance, self._allowance = self._allowance, None
        if allowance is not None:
            allowance.answered(self._rows, self._rows if rows is None else rows)
