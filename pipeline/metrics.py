"""What is measured, and its Prometheus exposition: one endpoint, on the driver.

Counters move only in `Metrics.published`, after the commit, so a task that was tried twice counts once, and a scrape
sees a batch whole or not at all.

For those who come from Flink, its seven look-up cache metrics, each by `dimension`:

    hitCount         millrace_cache_hits_total
    missCount        millrace_cache_misses_total
    loadCount        millrace_cache_loads_total            one load is one request to the master
    numLoadFailures  millrace_cache_load_failures_total    attempts, retried or not
    latestLoadTime   millrace_cache_load_seconds           mean of the last batch's requests
    numCachedRecord  millrace_cache_rows
    numCachedBytes   millrace_cache_bytes

Service rate over any period: rate(millrace_served_sales_total) / rate(millrace_join_seconds_total).
"""

from __future__ import annotations

import platform
import threading
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from pipeline import __version__
from pipeline.histogram import Histogram
from pipeline.metrics_server import MetricsServer
from pipeline.report import DimensionReport, Report

# Six a decade, from 1 ms to 10 min: neighbours differ by half, and a quantile lies between two of them.
BUCKETS = np.array(sorted(step * 10.0**power for power in range(-3, 3) for step in (1, 1.5, 2, 3, 5, 7)))
BUCKETS = np.round(BUCKETS[BUCKETS <= 600], 4)

Labels = tuple[str, ...]


class _Family(NamedTuple):
    labels: Labels
    meaning: str


_JOIN = ("dimension", "algorithm")
_COUNTERS = {
    "millrace_messages_total": _Family(("topic",), "Messages read from Kafka and committed, as facts or rejects."),
    "millrace_sales_total": _Family((), "Sales committed to the facts."),
    "millrace_rejects_total": _Family(("reason",), "Messages committed to the rejects."),
    "millrace_served_sales_total": _Family((*_JOIN, "outcome"), "Sales served: matched, unmatched or null_key."),
    "millrace_join_seconds_total": _Family(_JOIN, "Worker seconds in the join, waiting for the master included."),
    "millrace_cache_hits_total": _Family(("dimension",), "Sales served from memory, remembered absences included."),
    "millrace_cache_misses_total": _Family(("dimension",), "Sales for which the master had to be asked."),
    "millrace_cache_evictions_total": _Family(("dimension",), "Master rows thrown out of memory."),
    "millrace_cache_loads_total": _Family(("dimension",), "Requests to the master, of any kind."),
    "millrace_cache_load_failures_total": _Family(("dimension",), "Attempts of requests that failed, retried or not."),
    "millrace_master_queries_total": _Family(("dimension", "kind"), "Queries to the master."),
    "millrace_master_rows_total": _Family(("dimension", "kind"), "Rows the master returned."),
    "millrace_master_bytes_total": _Family(("dimension", "kind"), "Bytes the master returned, in Arrow."),
    "millrace_master_seconds_total": _Family(("dimension", "kind"), "Worker seconds waiting for the master."),
    "millrace_master_failures_total": _Family(("dimension", "kind"), "Attempts that failed, retried or not."),
    "millrace_phase_seconds_total": _Family(("phase",), "Worker seconds by phase of a batch: read, parse, enrich, …"),
    "millrace_batches_total": _Family(("outcome",), "Micro-batches: committed or failed."),
    "millrace_batch_failures_total": _Family(("reason",), "Failed micro-batches by what failed."),
}
_GAUGES = {
    "millrace_service_sales_per_second": _Family(_JOIN, "Last batch: sales served per worker second of join time."),
    "millrace_cache_load_seconds": _Family(("dimension",), "Last batch: mean duration of a request to the master."),
    "millrace_cache_rows": _Family(("dimension",), "Master rows and absences in memory, in the last batch's workers."),
    "millrace_cache_bytes": _Family(("dimension",), "Bytes they take."),
    "millrace_budget_used_bytes": _Family(("dimension", "part"), "Join memory in use, in the last batch's workers."),
    "millrace_budget_limit_bytes": _Family(("dimension",), "Join memory allowed, in the last batch's workers."),
    "millrace_backlog_messages": _Family(("topic",), "Messages in Kafka that no commit covers yet."),
    "millrace_last_batch_sales": _Family((), "Sales in the last committed batch."),
    "millrace_last_batch_id": _Family((), "Number of the last committed batch."),
    "millrace_last_commit_timestamp_seconds": _Family((), "Unix time of the last commit."),
    "millrace_worker_peak_bytes": _Family((), "Largest resident set any worker has had so far."),
    "millrace_ready": _Family((), "1 once Kafka and the master have both answered."),
    "millrace_build_info": _Family(("version", "python", "pyarrow"), "Always 1; what is running."),
}
_HISTOGRAMS = {
    "millrace_queue_wait_seconds": _Family(_JOIN, "Kafka timestamp until the join admitted the sale."),
    "millrace_processing_seconds": _Family(_JOIN, "Admitted until served."),
    "millrace_freshness_seconds": _Family((), "Kafka timestamp until the Delta commit, of every message."),
}


class Metrics(Collector):
    """All that is published about one job. Safe to scrape while a batch is being published."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[str, dict[Labels, float]] = {name: {} for name in (*_COUNTERS, *_GAUGES)}
        self._histograms: dict[str, dict[Labels, Histogram]] = {name: {} for name in _HISTOGRAMS}
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

    def published(self, report: Report, committed_at: float, batch: int) -> None:
        """Count one committed batch."""
        with self._lock:
            for topic, messages in report.topics.items():
                self._add("millrace_messages_total", (topic,), messages)
            self._add("millrace_sales_total", (), report.sales)
            for reason, messages in report.rejected.items():
                self._add("millrace_rejects_total", (reason,), messages)
            for name, dimension in report.dimensions.items():
                self._count_join(name, dimension)
                self._count_master(name, dimension)
            for phase, seconds in report.phases.items():
                self._add("millrace_phase_seconds_total", (phase,), seconds)
            self._observe("millrace_freshness_seconds", (), report.age.shifted(committed_at - report.at))
            self._add("millrace_batches_total", ("committed",), 1)
            self._set("millrace_last_batch_sales", (), report.sales)
            self._set("millrace_last_commit_timestamp_seconds", (), committed_at)
            peak = self._values["millrace_worker_peak_bytes"].get((), 0)
            self._set("millrace_worker_peak_bytes", (), max(peak, report.peak_bytes))
            self._set("millrace_last_batch_id", (), batch)

    def batch_failed(self, reason: str) -> None:
        """Count a batch that will be tried again, or that ended the job. `reason` must be one of few words."""
        with self._lock:
            self._add("millrace_batches_total", ("failed",), 1)
            self._add("millrace_batch_failures_total", (reason,), 1)

    def backlog(self, messages: Mapping[str, int]) -> None:
        """How many messages of each topic no commit covers yet. A topic not named is gone."""
        with self._lock:
            self._values["millrace_backlog_messages"] = {(topic,): float(n) for topic, n in messages.items()}

    def ready(self) -> None:
        """Kafka and the master have both answered."""
        self._is_ready = True
        self._set("millrace_ready", (), 1)

    def serve(self, host: str, port: int) -> int:
        """Serve /metrics, /live and /ready from a thread; returns the port, which 0 leaves to the system."""
        self._server = MetricsServer(host, port, self.registry, lambda: self._is_ready)
        return self._server.port

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    def collect(self) -> Iterator[Metric]:
        with self._lock:
            values = {name: dict(series) for name, series in self._values.items()}
            # Published histograms are replaced, never changed, so that a shallow copy is a snapshot.
            histograms = {name: dict(series) for name, series in self._histograms.items()}
        for kind, families in ((CounterMetricFamily, _COUNTERS), (GaugeMetricFamily, _GAUGES)):
            for name, family in families.items():
                metric = kind(name, family.meaning, labels=family.labels)
                for labels, value in sorted(values[name].items()):
                    metric.add_metric(labels, value)
                yield metric
        for name, family in _HISTOGRAMS.items():
            exposed = HistogramMetricFamily(name, family.meaning, labels=family.labels)
            for labels, histogram in sorted(histograms[name].items()):
                exposed.add_metric(labels, _buckets(histogram), histogram.total)
            yield exposed

    def _count_join(self, name: str, report: DimensionReport) -> None:
        join, counts = (name, report.algorithm), report.counts
        nulls = counts.get("null_keys", 0)
        # A join counts a null key among the unmatched: it is served the unknown member too.
        outcomes = {"matched": counts.get("matched", 0), "unmatched": counts.get("unmatched", 0) - nulls}
        for outcome, sales in {**outcomes, "null_key": nulls}.items():
            self._add("millrace_served_sales_total", (*join, outcome), sales)
        self._add("millrace_join_seconds_total", join, report.seconds)
        if report.seconds > 0:
            served = sum(outcomes.values()) + nulls
            self._set("millrace_service_sales_per_second", join, served / report.seconds)
        self._add("millrace_cache_hits_total", (name,), counts.get("hits", 0))
        self._add("millrace_cache_misses_total", (name,), counts.get("misses", 0))
        self._add("millrace_cache_evictions_total", (name,), counts.get("evicted", 0))
        self._set("millrace_cache_rows", (name,), report.cached_rows)
        self._set("millrace_cache_bytes", (name,), report.memory.get("cache", 0))
        self._set_parts(name, report.memory)
        self._set("millrace_budget_limit_bytes", (name,), report.memory_limit)
        self._observe("millrace_queue_wait_seconds", join, report.queue_wait)
        self._observe("millrace_processing_seconds", join, report.processing)

    def _count_master(self, name: str, report: DimensionReport) -> None:
        for kind, read in report.reads.items():
            for measure in ("queries", "rows", "bytes", "seconds", "failures"):
                self._add(f"millrace_master_{measure}_total", (name, kind), read.get(measure, 0))
        total = {m: sum(read.get(m, 0) for read in report.reads.values()) for m in ("queries", "seconds", "failures")}
        self._add("millrace_cache_loads_total", (name,), total["queries"])
        self._add("millrace_cache_load_failures_total", (name,), total["failures"])
        if total["queries"]:
            self._set("millrace_cache_load_seconds", (name,), total["seconds"] / total["queries"])

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
        merged = Histogram()
        merged += self._histograms[name].get(labels, merged)
        merged += histogram
        self._histograms[name][labels] = merged


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    within = zip(BUCKETS.tolist(), histogram.cumulative(BUCKETS).tolist(), strict=True)
    return [*((str(bound), count) for bound, count in within), ("+Inf", histogram.count)]
