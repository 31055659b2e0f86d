"""A task's answer to the driver: one small row with the files it finished and what it counted.

The driver merges the answers of a batch and publishes them after the commit, so a retried task never counts twice.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from pipeline.answers.histogram import Histogram
from pipeline.joins.counts import JoinStatistics
from pipeline.warehouse.port import FileAction


class DimensionAnswer(msgspec.Struct):
    """What one dimension's join did for this batch."""

    algorithm: str
    counts: dict[str, float] = {}  # JoinStatistics, by its field names
    reads: dict[str, dict[str, float]] = {}  # port.ReadCount by kind of read
    seconds: float = 0.0  # in the join: offering, stepping, waiting for the master
    predicted_rate: float = 0.0  # what the cost model expects of served / seconds; 0: no prediction
    memory: dict[str, int] = {}  # bytes in use by part, at the end
    memory_limit: int = 0
    cached_rows: int = 0  # master rows in memory, at the end
    queue_wait: Histogram = msgspec.field(default_factory=Histogram)  # Kafka timestamp until admitted
    processing: Histogram = msgspec.field(default_factory=Histogram)  # admitted until served

    @property
    def served(self) -> float:
        """Sales served, whatever came of them; a sale with many master rows counts with each."""
        return self.counts.get("matched", 0) + self.counts.get("unmatched", 0)

    def __iadd__(self, other: DimensionAnswer) -> DimensionAnswer:
        self.predicted_rate = _together(self, other)
        self.counts = _add(self.counts, other.counts)
        self.reads = {
            kind: _add(self.reads.get(kind, {}), other.reads.get(kind, {})) for kind in self.reads | other.reads
        }
        self.seconds += other.seconds
        self.memory = _add(self.memory, other.memory)
        self.memory_limit += other.memory_limit
        self.cached_rows += other.cached_rows
        self.queue_wait += other.queue_wait
        self.processing += other.processing
        return self


class Offsets(msgspec.Struct):
    """Which messages of one topic partition were read."""

    first: int
    last: int
    messages: int
    last_sent: int = 0  # Kafka timestamp of the last one, microseconds since 1970

    def __add__(self, other: Offsets) -> Offsets:
        later = max(self, other, key=lambda of_place: of_place.last)
        first, messages = min(self.first, other.first), self.messages + other.messages
        return Offsets(first, later.last, messages, later.last_sent)


class TaskAnswer(msgspec.Struct):
    """What a task, or after merging a whole batch, has done."""

    facts: list[FileAction] = []
    rejects: list[FileAction] = []
    sales: int = 0
    rejected: dict[str, int] = {}  # by reason
    topics: dict[str, int] = {}  # messages by topic
    offsets: dict[str, Offsets] = {}  # by "topic/partition"
    dimensions: dict[str, DimensionAnswer] = {}
    age: Histogram = msgspec.field(default_factory=Histogram)  # Kafka timestamp until `at`
    at: float = 0.0  # Unix time at which ages were taken: when the task began
    phases: dict[str, float] = {}  # seconds of work by phase: read, parse, enrich, write
    peak_bytes: int = 0  # the worker's largest resident set so far
    workers: list[str] = []  # host and process of each worker that took part

    def __iadd__(self, other: TaskAnswer) -> TaskAnswer:
        self.facts += other.facts
        self.rejects += other.rejects
        self.sales += other.sales
        self.rejected = _add(self.rejected, other.rejected)
        self.topics = _add(self.topics, other.topics)
        self.phases = _add(self.phases, other.phases)
        for name, dimension in other.dimensions.items():
            if name in self.dimensions:
                self.dimensions[name] += dimension
            else:
                self.dimensions[name] = dimension
        for place, more in other.offsets.items():
            self.offsets[place] = self.offsets[place] + more if place in self.offsets else more
        # Ages are compared at one moment: the later end of the two.
        later = max(self.at, other.at)
        self.age = self.age.shifted(later - self.at) if self.age.count else self.age
        self.age += other.age.shifted(later - other.at)
        self.at = later
        self.peak_bytes = max(self.peak_bytes, other.peak_bytes)
        self.workers = sorted({*self.workers, *other.workers})
        return self


def encode(answer: TaskAnswer) -> bytes:
    return _encoder.encode(answer)


def decode(answer: bytes) -> TaskAnswer:
    return _decoder.decode(answer)


def since(now: JoinStatistics, before: dict[str, float]) -> dict[str, float]:
    """What a join's counters gained."""
    return {name: value - before.get(name, 0) for name, value in vars(now).items()}


def _together(one: DimensionAnswer, other: DimensionAnswer) -> float:
    """The predicted rate of two answers as one: their sales by their seconds, as predicted."""
    sales = one.served + other.served
    if not (one.predicted_rate and other.predicted_rate and sales):
        return max(one.predicted_rate, other.predicted_rate)
    return sales / (one.served / one.predicted_rate + other.served / other.predicted_rate)


def _add(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    return {key: one.get(key, 0) + other.get(key, 0) for key in one | other}


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
