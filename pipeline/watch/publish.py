"""What is measured of a job: its endpoint is on the driver.

Counters move only in `Metrics.published`, after the commit, so a task that was tried twice counts once, and a scrape
sees a batch whole or not at all.

The page of all of them, Flink's names beside ours, is deploy/docs/metrics.md, written from `families.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from pipeline.answers.task import TaskAnswer
from pipeline.master.feed import Changes
from pipeline.watch import families
from pipeline.watch.families import COUNTERS, GAUGES, HISTOGRAMS, OF_JOB
from pipeline.watch.family import Committed, Family, Labels
from pipeline.watch.published import Published

V = TypeVar("V")


class Metrics(Published):
    """All that is published about one job. A scrape sees a batch whole or not at all."""

    def __init__(self) -> None:
        super().__init__(OF_JOB)
        self._set(families.READY, (), 0)
        self._past.begin_anew(self._moment())

    def published(self, answer: TaskAnswer, committed_at: float, batch: int) -> None:
        """Count one committed batch."""
        done = Committed(answer, committed_at, batch)
        with self._lock:
            for family in (*COUNTERS.values(), *GAUGES.values()):
                _merge(family, self._values[family.name], done)
            for histogram in HISTOGRAMS.values():
                _merge(histogram, self._histograms[histogram.name], done)
            self._past.note(self._moment())

    def batch_failed(self, reason: str) -> None:
        """Count a batch that will be tried again, or that ended the job. `reason` must be one of few words."""
        with self._lock:
            self._add(families.BATCHES, (families.FAILED,), 1)
            self._add(families.BATCH_FAILURES, (reason,), 1)

    def merged(self, files: int, seconds: float, failed: bool) -> None:
        """Count a merge of a table's small files."""
        with self._lock:
            self._add(families.MERGES, ("failed" if failed else "done",), 1)
            self._add(families.MERGED_FILES, (), files)
            self._add(families.MERGE_SECONDS, (), seconds)

    def contract(self, allowed: Mapping[str, float]) -> None:
        """What the load contract allows the job; what is not capped is 0."""
        with self._lock:
            for what, most in allowed.items():
                if most:
                    self._set(families.LOAD_LIMIT, (what,), most)

    def feed(self, is_up: bool, seconds_behind: float, changes: Changes) -> None:
        """How the master's feed is, and what it told."""
        with self._lock:
            self._set(families.FEED_UP, (), float(is_up))
            self._set(families.FEED_LAG, (), seconds_behind)
            for dimension, keys in changes.keys.items():
                self._add(families.FEED_CHANGES, (dimension,), len(keys))
            for dimension in changes.all_of:
                self._add(families.FEED_UNKNOWN, (dimension,), 1)
                self._add(families.FEED_CHANGES, (dimension,), 0)

    def healing(self, healed: Mapping[str, int], unknown: Mapping[str, tuple[int, float | None]]) -> None:
        """Facts that were healed; and those that are unknown, with the Unix time of the oldest one's message."""
        with self._lock:
            self._add(families.HEALING_FAILURES, (), 0)
            for dimension, (facts, _) in unknown.items():
                self._set(families.UNKNOWN, (dimension,), facts)
                self._add(families.HEALED, (dimension,), healed.get(dimension, 0))
            oldest: dict[Labels, float] = {(dimension,): at for dimension, (_, at) in unknown.items() if at is not None}
            self._values[families.OLDEST_UNKNOWN.name] = oldest

    def healing_failed(self) -> None:
        with self._lock:
            self._add(families.HEALING_FAILURES, (), 1)

    def backlog(self, messages: Mapping[str, int]) -> None:
        """How many messages of each topic no commit covers yet. A topic not named is gone."""
        with self._lock:
            self._values[families.BACKLOG.name] = {(topic,): float(n) for topic, n in messages.items()}
            for topic in messages:
                self._add(families.MESSAGES, (topic,), 0)

    def skipped(self, messages: Mapping[str, int]) -> None:
        """Messages that operators have ever decided to do without, as the facts' log says: it outlives the job."""
        with self._lock:
            self._values[families.SKIPPED.name] = {(topic,): float(n) for topic, n in messages.items()}

    def ready(self) -> None:
        """Kafka and the master have both answered."""
        with self._lock:
            self._is_ready = True
            self._set(families.READY, (), 1)
            self._past.begin_anew(self._moment())


def _merge(family: Family[V], series: dict[Labels, V], done: Committed) -> None:
    """What the batch says of a metric, with what is known of it already."""
    if family.replaced:  # another algorithm's rate, a part of the memory that is not used any more
        for labels in [labels for labels in series if labels[0] in done.answer.dimensions]:
            del series[labels]
    for labels, value in family.found(done).items():
        series[labels] = family.merged(series[labels], value) if labels in series else value
