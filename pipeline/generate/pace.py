"""How fast: plain rates, and the clocks that a run goes by."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta, timezone
from threading import Event
from typing import Protocol

from pipeline.errors import BadSetting
from pipeline.generate.bursts import USUAL_STREAMS, Bursts

Steps = Iterable[tuple[float, int]]  # seconds since the start, and how many messages are due then

AS_FAST_AS_POSSIBLE = 1_000_000.0  # a second; above what one process can make, and a microsecond of simulated time each


class ConstantRate:
    """The same number of messages in every stretch of time, in steps of a hundredth of a second or one message.

    >>> [step for _, step in zip(range(3), ConstantRate(250.0))]
    [(0.01, 2), (0.02, 3), (0.03, 2)]
    >>> next(iter(ConstantRate(0.5)))
    (2.0, 1)
    """

    def __init__(self, rate: float, one_step: float = 0.01) -> None:
        self._rate = rate
        self._steps_a_message = max(1.0, 1.0 / (rate * one_step))
        self._one_step = one_step

    def __iter__(self) -> Iterator[tuple[float, int]]:
        step, sent = 0, 0
        while True:
            step += 1
            at = step * self._steps_a_message * self._one_step
            due = int(at * self._rate + 1e-6)
            yield at, due - sent
            sent = due


def steps(rate: float | None, bursty: bool, streams: int | None, seed: int) -> Steps:
    """The steps of a run: bursts around a mean rate, a constant rate, or (no rate) as fast as possible."""
    if rate is not None and not 0 < rate <= AS_FAST_AS_POSSIBLE:
        raise BadSetting(f"rate: {rate}. It must be above 0 and at most {AS_FAST_AS_POSSIBLE:,.0f} messages a second.")
    if not bursty:
        if streams is not None:
            raise BadSetting(f"streams: {streams}. Only bursts are made of streams: add bursty, or leave streams out.")
        return ConstantRate(rate or AS_FAST_AS_POSSIBLE)
    if rate is None:
        raise BadSetting("bursts: a mean rate is needed for them. Give a rate, or leave the bursts out.")
    return Bursts(rate, USUAL_STREAMS if streams is None else streams, seed)


class Clock(Protocol):
    """Time as a run sees it, in microseconds since 1970."""

    def now(self) -> int: ...

    def wait_until(self, microseconds: int, stop: Event) -> None: ...


class WallClock:
    """The machine's own time."""

    def now(self) -> int:
        return time.time_ns() // 1_000

    def wait_until(self, microseconds: int, stop: Event) -> None:
        seconds = (microseconds - self.now()) / 1_000_000
        if seconds > 0:
            stop.wait(seconds)


class SimulatedClock:
    """Time that passes only when it is waited for: the same run gives the same instants."""

    def __init__(self, start: datetime) -> None:
        if start.tzinfo is None:
            raise BadSetting(f"sold from: {start.isoformat()} has no offset. Write it with one, or with Z.")
        self._now = (start - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(microseconds=1)

    def now(self) -> int:
        return self._now

    def wait_until(self, microseconds: int, stop: Event) -> None:
        self._now = max(self._now, microseconds)
