"""What is measured, and its Prometheus exposition: one endpoint, on the driver.

Counters move only in `Metrics.published`, after the commit, so a task that was tried twice counts once, and a scrape
sees a batch whole or not at all.

The page of all of them, Flink's names beside ours, is deploy/docs/metrics.md, written from `metrics_families.py`.
"""

from __future__ import annotations

import platform
import threading
from collections.abc import Iterator, Mapping

import pyarrow as pa
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from pipeline import __version__
from pipeline.answers.histogram import Histogram
from pipeline.answers.task import DimensionAnswer, TaskAnswer
from pipeline.parse import reasons
from pipeline.watch.families import COUNTERS, GAUGES, HISTOGRAMS, Labels
from pipeline.watch.moments import Moment, Past
from pipeline.watch.server import MetricsServer

_REASONS = [code for name, code in vars(reasons).items() if name.isupper() and not name.startswith("_")]


class Metrics(Collector):
    """All that is published about one job. Safe to scrape while a batch is being published."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[str, dict[Labels, float]] = {name: {} for name in (*COUNTERS, *GAUGES)}
        self._histograms: dict[str, dict[Labels, Histogram]] = {name: {} for name in HISTOGRAMS}
        self._server: MetricsServer | None = None
        self._is_ready = False
        self.registry = CollectorRegistry()
        self.registry.register(self)
        ProcessCollector(registry=self.registry)
        self._set("millrace_build_info", (__version__, platform.python_version(), pa.__version__), 1)
        self._set("millrace_ready", (), 0)
        # A rate needs its zero: a counter that appears with its first event hides that event.
        self._add("millrace_sales_total", (), 0)
        for outcome in ("committed", "failed"):
            self._add("millrace_batches_total", (outcome,), 0)
        for reason in _REASONS:
            self._add("millrace_rejects_total", (reason,), 0)
        self._past = Past()
        self._past.note(self._moment())

    def published(self, answer: TaskAnswer, committed_at: float, batch: int) -> None:
        """Count one committed batch."""
        with self._lock:
            for topic, messages in answer.topics.items():
                self._add("millrace_messages_total", (topic,), messages)
            self._add("millrace_sales_total", (), answer.sales)
            for reason, messages in answer.rejected.items():
                self._add("millrace_rejects_total", (reason,), messages)
            for name, dimension in answer.dimensions.items():
                self._count_join(name, dimension)
                self._count_master(name, dimension)
            for phase, seconds in answer.phases.items():
                self._add("millrace_phase_seconds_total", (phase,), seconds)
            self._observe("millrace_freshness_seconds", (), answer.age.shifted(committed_at - answer.at))
            self._add("millrace_batches_total", ("committed",), 1)
            self._set("millrace_last_batch_sales", (), answer.sales)
            if answer.workers:  # an empty batch has none
                self._set("millrace_workers", (), len(answer.workers))
            self._set("millrace_last_commit_timestamp_seconds", (), committed_at)
            peak = self._values["millrace_worker_peak_bytes"].get((), 0)
            self._set("millrace_worker_peak_bytes", (), max(peak, answer.peak_bytes))
            self._set("millrace_last_batch_id", (), batch)
            self._past.note(self._moment())

    def batch_failed(self, reason: str) -> None:
        """Count a batch that will be tried again, or that ended the job. `reason` must be one of few words."""
        with self._lock:
            self._add("millrace_batches_total", ("failed",), 1)
            self._add("millrace_batch_failures_total", (reason,), 1)

    def backlog(self, messages: Mapping[str, int]) -> None:
        """How many messages of each topic no commit covers yet. A topic not named is gone."""
        with self._lock:
            self._values["millrace_backlog_messages"] = {(topic,): float(n) for topic, n in messages.items()}
            for topic in messages:
                self._add("millrace_messages_total", (topic,), 0)

    def skipped(self, messages: Mapping[str, int]) -> None:
        """Messages that operators have ever decided to do without, as the facts' log says: it outlives the job."""
        with self._lock:
            self._values["millrace_skipped_messages_total"] = {(topic,): float(n) for topic, n in messages.items()}

    def ready(self) -> None:
        """Kafka and the master have both answered."""
        with self._lock:
            self._is_ready = True
            self._set("millrace_ready", (), 1)
            self._past.begin_anew(self._moment())

    def serve(self, host: str, port: int) -> int:
        """Serve /metrics, /live and /ready from a thread; returns the port, which 0 leaves to the system."""
        self._server = MetricsServer(host, port, self.registry, lambda: self._is_ready, self._minute_ago)
        return self._server.port

    def _minute_ago(self) -> tuple[Moment, float]:
        with self._lock:
            return self._past.minute_ago()

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    def collect(self) -> Iterator[Metric]:
        with self._lock:
            now = self._moment()
        return now.collect()

    def _moment(self) -> Moment:
        # Published histograms are replaced, never changed, so that a shallow copy is a snapshot.
        return Moment(
            {name: dict(series) for name, series in self._values.items()},
            {name: dict(series) for name, series in self._histograms.items()},
        )

    def _count_join(self, name: str, answer: DimensionAnswer) -> None:
        join, counts = (name, answer.algorithm), answer.counts
        # A join counts a null key among the unmatched: it is served the unknown member too.
        unmatched = counts.unmatched - counts.null_keys
        outcomes = {"matched": counts.matched, "unmatched": unmatched, "null_key": counts.null_keys}
        for outcome, sales in outcomes.items():
            self._add("millrace_served_sales_total", (*join, outcome), sales)
        self._add("millrace_join_seconds_total", join, answer.seconds)
        observed = counts.served / answer.seconds if answer.seconds > 0 else 0.0
        self._set_rate("millrace_service_rate", join, observed)
        self._set_rate("millrace_predicted_service_rate", join, answer.predicted_rate)
        self._add("millrace_cache_hits_total", (name,), counts.hits)
        self._add("millrace_cache_misses_total", (name,), counts.misses)
        self._add("millrace_cache_evictions_total", (name,), counts.evicted)
        self._set("millrace_cache_rows", (name,), answer.cached_rows)
        self._set("millrace_cache_bytes", (name,), answer.memory.get("cache", 0))
        self._set_parts(name, answer.memory)
        self._set("millrace_budget_limit_bytes", (name,), answer.memory_limit)
        self._observe("millrace_queue_wait_seconds", join, answer.queue_wait)
        self._observe("millrace_processing_seconds", join, answer.processing)

    def _count_master(self, name: str, answer: DimensionAnswer) -> None:
        for kind, read in answer.reads.by_kind.items():
            self._add("millrace_master_queries_total", (name, kind), read.queries)
            self._add("millrace_master_rows_total", (name, kind), read.rows)
            self._add("millrace_master_bytes_total", (name, kind), read.bytes)
            self._add("millrace_master_seconds_total", (name, kind), read.seconds)
            self._add("millrace_master_failures_total", (name, kind), read.failures)
        total = answer.reads.total
        self._add("millrace_cache_loads_total", (name,), total.queries)
        self._add("millrace_cache_load_failures_total", (name,), total.failures)
        if total.queries:
            self._set("millrace_cache_load_seconds", (name,), total.seconds / total.queries)

    def _set_rate(self, name: str, join: Labels, rate: float) -> None:
        """A dimension has one algorithm at a time: the rate of another one it had before is gone; 0 is not known."""
        rates = self._values[name]
        for labels in [labels for labels in rates if labels[0] == join[0]]:
            del rates[labels]
        if rate > 0:
            rates[join] = rate

    def _set_parts(self, dimension: str, memory: Mapping[str, int]) -> None:
        """The parts of this batch; one that is not used any more is gone."""
        used = self._values["millrace_budget_used_bytes"]
        for labels in [labels for labels in used if labels[0] == dimension]:
            del used[labels]
        for part, size in memory.items():
            used[dimension, part] = size

    def _add(self, name: str, labels: Labels, value: float) -> None:
        series = self._values[name]
        series[labels] = series.get(labels, 0) + value

    def _set(self, name: str, labels: Labels, value: float) -> None:
        self._values[name][labels] = value

    def _observe(self, name: str, labels: Labels, histogram: Histogram) -> None:
        self._histograms[name][labels] = self._histograms[name].get(labels, Histogram()) + histogram
