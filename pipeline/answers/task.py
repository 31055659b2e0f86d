"""A task's answer to the driver: one small row with the files it finished and what it counted.

The driver adds up the answers of a batch and publishes them after the commit, so a retried task never counts twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeVar

import msgspec
import numpy as np

from pipeline.answers.histogram import Histogram
from pipeline.joins.counts import JoinStatistics
from pipeline.master.port import Reads
from pipeline.master.share import Used
from pipeline.warehouse.port import FileAction

Phase = Literal["read", "parse", "enrich", "write", "commit"]


class DimensionAnswer(msgspec.Struct):
    """What one dimension's join did for this batch."""

    algorithm: str
    counts: JoinStatistics = msgspec.field(default_factory=JoinStatistics)
    reads: Reads = msgspec.field(default_factory=Reads)
    seconds: float = 0.0  # in the join: offering, stepping, waiting for the master
    predicted_rate: float = 0.0  # what the cost model expects of served / seconds; 0: no prediction
    predicted_hits: float = 0.0  # sales that it expects to be served from memory; 0: no prediction, or no front stage
    memory: dict[str, int] = {}  # bytes in use by part, at the end
    memory_limit: int = 0
    cached_rows: int = 0  # master rows and absences in memory, at the end
    cached_bytes: int = 0  # that they take
    key_filters: int = 0  # workers with a filter of all keys that answers, at the end
    queue_wait: Histogram = msgspec.field(default_factory=Histogram)  # Kafka timestamp until admitted
    processing: Histogram = msgspec.field(default_factory=Histogram)  # admitted until served

    def __add__(self, other: DimensionAnswer) -> DimensionAnswer:
        return DimensionAnswer(
            algorithm=self.algorithm,
            counts=self.counts + other.counts,
            reads=self.reads + other.reads,
            seconds=self.seconds + other.seconds,
            predicted_rate=_rate_of_both(self, other),
            predicted_hits=self.predicted_hits + other.predicted_hits,
            memory=_sums(self.memory, other.memory),
            memory_limit=self.memory_limit + other.memory_limit,
            cached_rows=self.cached_rows + other.cached_rows,
            cached_bytes=self.cached_bytes + other.cached_bytes,
            key_filters=self.key_filters + other.key_filters,
            queue_wait=self.queue_wait + other.queue_wait,
            processing=self.processing + other.processing,
        )


class Offsets(msgspec.Struct):
    """Which messages of one topic partition were read."""

    first: int
    last: int
    messages: int
    last_sent: int = 0  # Kafka timestamp of the last one, microseconds since 1970

    def __add__(self, other: Offsets) -> Offsets:
        newer = self if self.last >= other.last else other
        first, messages = min(self.first, other.first), self.messages + other.messages
        return Offsets(first, newer.last, messages, newer.last_sent)


class TaskAnswer(msgspec.Struct):
    """What a task, or after adding up a whole batch, has done."""

    facts: list[FileAction] = []
    rejects: list[FileAction] = []
    sales: int = 0
    rejected: dict[str, int] = {}  # messages by reason
    topics: dict[str, int] = {}  # messages by topic
    offsets: dict[str, Offsets] = {}  # by "topic/partition"
    dimensions: dict[str, DimensionAnswer] = {}
    age: Histogram = msgspec.field(default_factory=Histogram)  # Kafka timestamp until `at`
    at: float = 0.0  # Unix time at which ages were taken: when the task began
    phases: dict[Phase, float] = {}  # seconds of work
    peak_bytes: int = 0  # the worker's largest resident set so far
    workers: list[str] = []  # host and process of each worker that took part
    used: list[Used] = []  # of the load contract, at the end: it counts for whoever asks the master next
    sessions: int = 0  # with the master, at most
    feed: str = ""  # in the master's log: no worker served from memory what had changed before. The driver sets it

    def __add__(self, other: TaskAnswer) -> TaskAnswer:
        at = max(self.at, other.at)
        return TaskAnswer(
            facts=self.facts + other.facts,
            rejects=self.rejects + other.rejects,
            sales=self.sales + other.sales,
            rejected=_sums(self.rejected, other.rejected),
            topics=_sums(self.topics, other.topics),
            offsets=_sums(self.offsets, other.offsets),
            dimensions=_sums(self.dimensions, other.dimensions),
            age=self._age_at(at) + other._age_at(at),
            at=at,
            phases=_sums(self.phases, other.phases),
            peak_bytes=max(self.peak_bytes, other.peak_bytes),
            workers=sorted({*self.workers, *other.workers}),
            used=self.used + other.used,
            sessions=self.sessions + other.sessions,
        )

    def _age_at(self, moment: float) -> Histogram:
        """Ages are compared at one moment."""
        return self.age.shifted(moment - self.at) if self.age.count else self.age


def encode(answer: TaskAnswer) -> bytes:
    return _encoder.encode(answer)


def decode(answer: bytes) -> TaskAnswer:
    return _decoder.decode(answer)


K = TypeVar("K", bound=str)
V = TypeVar("V", int, float, Offsets, DimensionAnswer)


def _sums(one: Mapping[K, V], other: Mapping[K, V]) -> dict[K, V]:
    """What both have is added up, the rest is taken over."""
    return {**one, **{key: one[key] + value if key in one else value for key, value in other.items()}}


def _rate_of_both(one: DimensionAnswer, other: DimensionAnswer) -> float:
    """The predicted rate of two answers as one: their sales by their seconds, as predicted."""
    sales = one.counts.served + other.counts.served
    if not (one.predicted_rate and other.predicted_rate and sales):
        return max(one.predicted_rate, other.predicted_rate)
    return sales / (one.counts.served / one.predicted_rate + other.counts.served / other.predicted_rate)


def _to_builtin(value: Any) -> Any:
    if isinstance(value, Histogram):
        return value.sparse()
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} cannot be part of an answer")


def _from_builtin(kind: type, value: Any) -> Any:
    if kind is Histogram:
        return Histogram.from_sparse(**value)
    raise TypeError(f"{kind.__name__} cannot be part of an answer")


_encoder = msgspec.json.Encoder(enc_hook=_to_builtin)
_decoder = msgspec.json.Decoder(TaskAnswer, dec_hook=_from_builtin)
