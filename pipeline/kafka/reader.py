"""Reads ranges of offsets: all of them, each message once, or an error that says which are not there.

While what came is taken apart and worked on, the broker has the next question already. What is not told by a broker
today may be told tomorrow: a leader moves, a broker starts again. So what a worker needs of Kafka it asks for again and
again, for a bounded time without any progress; then it says what was in the way.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TypeVar

import pyarrow as pa
from kafka.errors import for_code

from pipeline.config.settings import WorkerSettings
from pipeline.errors import KafkaReadFailed
from pipeline.kafka.cluster import Cluster
from pipeline.kafka.connection import NotReached
from pipeline.kafka.fetches import Came, NotYet, Rest, request, taken, too_short
from pipeline.kafka.ranges import Range

_PATIENCE = 120.0  # seconds without progress, as for the master
_PAUSES = 0.05, 1.0  # seconds before brokers are asked again: the first, the longest
_MOST = 8 << 20  # bytes of an answer, unless a record batch alone has more

T = TypeVar("T")


def messages(
    ranges: Iterable[Range], cluster: Cluster, limits: WorkerSettings, patience: float = _PATIENCE
) -> Iterator[pa.RecordBatch]:
    """The messages of these ranges, those of a partition in their order, in pieces no larger than a window."""
    reading = _Reading(ranges, cluster, min(_MOST, limits.window_bytes), patience)
    try:
        for some in reading.run():
            yield from _within(some, limits)
    finally:
        reading.leave()


class _Reading:
    def __init__(self, ranges: Iterable[Range], cluster: Cluster, most: int, patience: float) -> None:
        self._cluster, self._most, self._patience = cluster, most, patience
        self._rests = {(r.topic, r.partition): Rest(r, r.first) for r in ranges if len(r)}
        self._asked: dict[int, list[Rest]] = {}  # of a broker whose answer is still to come
        self._trouble: dict[str, None] = {}  # since the last progress, each only once
        self._troubled_since: float | None = None
        self._pause = _PAUSES[0]

    def run(self) -> Iterator[pa.RecordBatch]:
        came: list[Came] = []
        while self._rests or came:
            self._ask()
            for some in came:
                yield from some.records.messages(some.first, some.end)
            came = self._hear() if self._asked else []
            if came:
                self._trouble.clear()
                self._troubled_since, self._pause = None, _PAUSES[0]
            elif self._rests and not self._asked:
                self._be_patient()

    def leave(self) -> None:
        """What was asked for and not heard would be taken for the answer to the next question."""
        for broker in self._asked:
            self._cluster.drop(broker)

    def _ask(self) -> None:
        """All that nobody has been asked for yet, of each leader at once."""
        asked = {rest.key for rests in self._asked.values() for rest in rests}
        now = time.monotonic()
        to_ask = [rest for key, rest in self._rests.items() if key not in asked and rest.not_before <= now]
        if any(self._cluster.leader(*rest.key) is None for rest in to_ask):
            self._tried(lambda: self._cluster.look(topic for topic, _ in self._rests))
        of_leader = defaultdict(list)
        for rest in to_ask:
            leader = self._cluster.leader(*rest.key)
            if leader is None:
                self._put_off(rest, f"{rest.whole} has no leader, or is not there")
            elif leader not in self._asked:
                of_leader[leader].append(rest)
        for leader, rests in of_leader.items():
            if self._tried(partial(self._send, leader, rests)) is None:
                self._lost(leader, rests)
            else:
                self._asked[leader] = rests

    def _send(self, leader: int, rests: list[Rest]) -> bool:
        self._cluster.connection(leader).send(request(rests, self._cluster, self._most))
        return True

    def _hear(self) -> list[Came]:
        """The answer of the broker that was asked first."""
        broker = next(iter(self._asked))
        answer = self._tried(lambda: self._cluster.answer(broker))
        rests = self._asked.pop(broker)
        if answer is None:
            self._lost(broker, rests)
            return []
        parts = [(self._rests.get((t.topic, p.partition_index)), p) for t in answer.responses for p in t.partitions]
        came = [some for rest, part in parts if rest is not None and (some := self._taken(rest, part))]
        if not came:
            if answer.error_code or not self._trouble:
                self._trouble[f"broker {broker} gives nothing ({for_code(answer.error_code).__name__})"] = None
            for rest in rests:
                self._put_off(rest)
        return came

    def _taken(self, rest: Rest, part: object) -> Came | None:
        try:
            came = taken(rest, part, self._cluster)
        except (NotYet, NotReached) as error:
            if not (isinstance(error, NotYet) and error.leads):
                self._cluster.forget_leader(*rest.key)
            self._put_off(rest, str(error))
            return None
        if came:
            # Who was served is asked for behind the others: the first one of a question is served in any case.
            del self._rests[rest.key]
            if rest.first < rest.end:
                self._rests[rest.key] = rest
        return came

    def _tried(self, step: Callable[[], T]) -> T | None:
        try:
            return step()
        except NotReached as error:
            self._trouble[str(error)] = None
            return None

    def _lost(self, broker: int, rests: list[Rest]) -> None:
        self._cluster.drop(broker)
        for rest in rests:
            self._cluster.forget_leader(*rest.key)
            self._put_off(rest)

    def _put_off(self, rest: Rest, why: str | None = None) -> None:
        """Ask for it again after a pause."""
        self._trouble |= {why: None} if why else {}
        rest.not_before = time.monotonic() + self._pause

    def _be_patient(self) -> None:
        """Only time in which nothing comes counts; what is done with messages meanwhile may take longer."""
        now = time.monotonic()
        self._troubled_since = self._troubled_since or now
        if now - self._troubled_since > self._patience:
            for rest in self._rests.values():
                if rest.ends_at is not None and rest.ends_at < rest.end:
                    raise too_short(rest, rest.ends_at)
            missing = "; ".join(map(str, self._rests.values()))
            raise KafkaReadFailed(
                f"Kafka could not be read for {self._patience:g} s: {'; '.join(self._trouble)}. Still to be read were "
                f"{missing}. Nothing is lost: once the brokers answer, the next start goes on."
            )
        threading.Event().wait(self._pause)
        self._pause = min(2 * self._pause, _PAUSES[1])


def _within(some: pa.RecordBatch, limits: WorkerSettings) -> Iterator[pa.RecordBatch]:
    """In pieces that fit into a window; a message that alone is larger is a piece."""
    if len(some) <= 1 or (len(some) <= limits.window_sales and some.nbytes <= limits.window_bytes):
        yield some
        return
    half = len(some) // 2
    yield from _within(some.slice(0, half), limits)
    yield from _within(some.slice(half), limits)
