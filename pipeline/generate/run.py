"""One run of the generator: steps of time -> draws -> messages -> Kafka -> what was sent."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from typing import Any

import numpy as np

from pipeline.errors import BadSetting
from pipeline.generate import pace
from pipeline.generate.draws import Drawer, Draws
from pipeline.generate.progress import bar
from pipeline.generate.sales import Messages, SaleWriter
from pipeline.generate.send import Sender, SendFailed
from pipeline.generate.sent import Sent, SentToTopic
from pipeline.generate.workload import Workload

_SECOND = 1_000_000
_SLICE = 10_000  # messages built at once
_SLICE_BYTES = 64 << 20  # of oversized messages among them


def generate(
    *,
    bootstrap: str,
    workload: Workload | None = None,
    messages: int | None = None,
    seconds: float | None = None,
    rate: float | None = None,
    bursty: bool = False,
    streams: int | None = None,
    sold_from: datetime | None = None,
    partitions: int = 4,
    client: Mapping[str, str] | None = None,
    progress: bool = True,
    stop: threading.Event | None = None,
) -> Sent:
    """Send sales until `messages` are sent, `seconds` have passed, or it is stopped; say what was sent.

    `rate` is messages a second (None: as fast as possible), the mean of the bursts where `bursty`, which are made of
    so many `streams`. `sold_from` starts a simulated clock there and does not wait: then every byte is reproducible.
    Missing topics are created with `partitions`. SIGINT, SIGTERM or setting `stop` ends the run cleanly. When a message
    was not acknowledged, `SendFailed` is raised and carries what was sent.
    """
    workload = workload or Workload()
    limits = _Limits(messages, seconds)
    steps = pace.steps(rate, bursty, streams, workload.seed)
    clock: pace.Clock = pace.SimulatedClock(sold_from) if sold_from else pace.WallClock()
    run = _Run(workload, Sender(bootstrap, client, workload.oversized_bytes if workload.oversized else 0))
    run.sender.prepare(workload.topics, partitions)
    stop = stop or threading.Event()
    with _stopped_by_signals(stop), bar("sales", messages, progress) as advance:
        run.begin(clock.now())
        for at, planned in steps:
            due = limits.cut(at, planned, run.sent.messages, clock.now() - run.start)
            if due is None or stop.is_set() or run.sender.failed:
                break
            clock.wait_until(run.start + round(at * _SECOND), stop)
            if not stop.is_set():
                run.send(due, clock.now)
                advance(due)
        run.sender.flush()
    return run.end(interrupted=stop.is_set())


@dataclass(frozen=True)
class _Limits:
    messages: int | None
    seconds: float | None

    def __post_init__(self) -> None:
        if any(limit is not None and limit <= 0 for limit in (self.messages, self.seconds)):
            raise BadSetting(f"messages {self.messages}, seconds {self.seconds}: a limit must be above 0, or left out.")

    def cut(self, at: float, due: int, sent: int, elapsed: int) -> int | None:
        """How many of the messages due at this step may be sent; None when the run is over."""
        if self.seconds is not None and (at > self.seconds + 1e-9 or elapsed >= self.seconds * _SECOND):
            return None
        if self.messages is None:
            return due
        return min(due, self.messages - sent) if sent < self.messages else None


class _Run:
    """Draws, builds and sends; `sent` grows by what was handed to the producer."""

    def __init__(self, workload: Workload, sender: Sender) -> None:
        self.sender = sender
        self.sent = Sent(asdict(workload), topics={topic: SentToTopic() for topic in workload.topics})
        self._workload = workload
        self._blocks = iter(Drawer(workload))
        self._drawn = next(self._blocks)
        self._writer = SaleWriter(workload)
        oversized = workload.oversized * workload.oversized_bytes
        self._slice = max(1, min(_SLICE, int(_SLICE_BYTES / oversized) if oversized else _SLICE))

    def begin(self, start: int) -> None:
        self.start = self._last = start
        self._began = time.monotonic()
        self.sent.started_at = _utc_now()

    def send(self, due: int, now: Callable[[], int]) -> None:
        """Send this many messages, sold since the last step."""
        while due:
            draws = self._take(min(due, self._slice))
            due -= len(draws)
            until = now()
            # Spread over the time since the last step, in the course of which they fell due.
            sold_at = self._last + (until - self._last) * np.arange(1, len(draws) + 1) // len(draws)
            self._last = until
            self._send(draws, self._writer.write(draws, sold_at))

    def _take(self, most: int) -> Draws:
        if not len(self._drawn):
            self._drawn = next(self._blocks)
        taken, self._drawn = self._drawn.take(slice(most)), self._drawn.take(slice(most, None))
        return taken

    def _send(self, draws: Draws, messages: Messages) -> None:
        for place, topic in enumerate(self._workload.topics):
            (mine,) = np.nonzero(draws.topic == place)
            if len(mine):
                self.sender.send(topic, messages if len(mine) == len(draws) else messages.take(mine.tolist()))
                self.sent.topics[topic].add(draws.take(mine))
        self.sent.messages += len(draws)

    def end(self, interrupted: bool) -> Sent:
        sent, sender = self.sent, self.sender
        sent.ended_at = _utc_now()
        sent.seconds = round(time.monotonic() - self._began, 3)
        sent.messages_per_second = round(sent.messages / max(sent.seconds, 0.001), 1)
        sent.next_sale = self._workload.first_sale + sent.messages
        sent.interrupted = interrupted
        sent.failed = dict(sender.failed)
        sent.complete = not sender.failed and sender.messages_acknowledged == sent.messages
        for topic, partitions in sender.acknowledged.items():
            sent.topics[topic].partitions = dict(sorted(partitions.items()))
        if not sent.complete:
            raise SendFailed(
                f"{sent.messages - sender.messages_acknowledged:,} of {sent.messages:,} messages were not "
                f"acknowledged: {sent.failed}. See that the broker runs and takes messages of their size.",
                sent,
            )
        return sent


def _utc_now() -> str:
    return datetime.now(timezone.utc).isoformat()


@contextmanager
def _stopped_by_signals(stop: threading.Event) -> Iterator[None]:
    """The first Ctrl-C ends the run cleanly, a second one at once. Only the main thread may listen to signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop_or_leave(number: int, frame: Any) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = {number: signal.signal(number, stop_or_leave) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
