"""All that a job publishes: for each metric a row with its labels, its meaning, and where a committed batch has it.

`publish.py` fills the rows, `scrape.py` asks by them, deploy/docs/metrics.md is written from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import add

import numpy as np

from pipeline.answers.histogram import Histogram
from pipeline.answers.task import DimensionAnswer
from pipeline.parse import reasons
from pipeline.watch.family import (
    Family,
    Found,
    Labels,
    Table,
    batch,
    by,
    by_dimension_and,
    by_join_and,
    dimensions,
    each,
    joins,
    nowhere,
    reads,
)

# Six a decade, from 1 ms to 10 min: neighbours differ by half, and a quantile lies between two of them. Between 0.1 and
# 2 s, where the freshness of a healthy job lies, they differ by a tenth to a quarter.
_FINE = (0.12, 0.17, 0.25, 0.35, 0.4, 0.6, 0.8, 0.9, 1.2, 1.35, 1.75)
BUCKETS = np.array([step * 10.0**power for power in range(-3, 3) for step in (1, 1.5, 2, 3, 5, 7)] + [*_FINE])
BUCKETS = np.append(np.sort(np.round(BUCKETS[BUCKETS < 600], 4)), 600.0)

COUNTERS: dict[str, Family[float]] = {}
GAUGES: dict[str, Family[float]] = {}
HISTOGRAMS: dict[str, Family[Histogram]] = {}
OF_JOB = Table(COUNTERS, GAUGES, HISTOGRAMS)

_DIMENSION = ("dimension",)
_JOIN = ("dimension", "algorithm")
_READ = ("dimension", "kind")
_AUTO = "auto"  # the algorithm that chooses anew for every window
COMMITTED, FAILED = "committed", "failed"  # outcomes of a batch


def _counter(
    name: str, labels: Labels, meaning: str, found: Found[float] = nowhere, from_start: tuple[Labels, ...] = ()
) -> Family[float]:
    """Grows by what each batch adds."""
    row = COUNTERS[name] = Family(name, labels, meaning, found, add, from_start)
    return row


def _gauge(
    name: str, labels: Labels, meaning: str, found: Found[float] = nowhere, replaced: bool = False
) -> Family[float]:
    """Shows the newest batch that says something."""
    row = GAUGES[name] = Family(name, labels, meaning, found, lambda _, now: now, replaced=replaced)
    return row


def _peak(name: str, labels: Labels, meaning: str, found: Found[float]) -> Family[float]:
    """Shows the highest of all batches."""
    row = GAUGES[name] = Family(name, labels, meaning, found, max)
    return row


def _histogram(name: str, labels: Labels, meaning: str, found: Found[Histogram]) -> Family[Histogram]:
    row = HISTOGRAMS[name] = Family(name, labels, meaning, found, add)
    return row


def _outcomes(join: DimensionAnswer) -> Mapping[str, float]:
    """A join counts a null key among the unmatched: it is served the unknown member too."""
    counts = join.counts
    unmatched = counts.unmatched - counts.null_keys
    return {"matched": counts.matched, "unmatched": unmatched, "null_key": counts.null_keys}


def _ways(join: DimensionAnswer) -> Mapping[str, float]:
    counts = join.counts
    ways = {"look-ups": counts.looked_up, "pages": counts.by_pages, "scan": counts.by_scan}
    return ways if join.algorithm == _AUTO else {}


def _rate(join: DimensionAnswer) -> float | None:
    return join.counts.served / join.seconds if join.counts.served and join.seconds > 0 else None


def _mean_seconds(join: DimensionAnswer) -> float | None:
    total = join.reads.total
    return total.seconds / total.queries if total.queries else None


# fmt: off
MESSAGES = _counter(
    "millrace_messages_total", ("topic",), "Messages read from Kafka and committed, as facts or rejects.",
    by(lambda answer: answer.topics))
SKIPPED = _counter(
    "millrace_skipped_messages_total", ("topic",), "Messages left out by `millrace skip`, in all gaps so far.")
SALES = _counter(
    "millrace_sales_total", (), "Sales committed to the facts.",
    each(batch, lambda done: done.answer.sales), from_start=((),))
REJECTS = _counter(
    "millrace_rejects_total", ("reason",), "Messages committed to the rejects.",
    by(lambda answer: answer.rejected), from_start=tuple((reason,) for reason in reasons.ALL))
SERVED = _counter(
    "millrace_served_sales_total", (*_JOIN, "outcome"), "Sales served: matched, unmatched or null_key.",
    by_join_and(_outcomes))
JOIN_SECONDS = _counter(
    "millrace_join_seconds_total", _JOIN, "Worker seconds in the join, waiting for the master included.",
    each(joins, lambda join: join.seconds))
AUTO_WINDOWS = _counter(
    "millrace_auto_windows_total", ("dimension", "way"),
    "Windows of sales that `auto` fetched rows for: by look-ups, by pages (the rest by look-ups), or by a scan.",
    by_dimension_and(_ways))
_counter(
    "millrace_overlapping_sales_total", _DIMENSION,
    "Sales at whose time several master rows of their key were valid: the one that begins last counts.",
    each(dimensions, lambda join: join.counts.overlapping))
CACHE_HITS = _counter(
    "millrace_cache_hits_total", _DIMENSION, "Sales served from memory, remembered absences included.",
    each(dimensions, lambda join: join.counts.hits))
_counter(
    "millrace_cache_predicted_hits_total", _DIMENSION,
    "Sales that the most wanted rows would serve, as many as the cache has room for, by the skew in the settings.",
    each(dimensions, lambda join: join.predicted_hits or None))
CACHE_MISSES = _counter(
    "millrace_cache_misses_total", _DIMENSION, "Sales for which the master had to be asked.",
    each(dimensions, lambda join: join.counts.misses))
_counter(
    "millrace_ruled_out_sales_total", _DIMENSION,
    "Sales without a master row by the filter of all keys: neither hits nor misses, nobody was asked.",
    each(dimensions, lambda join: join.counts.ruled_out))
_counter(
    "millrace_cache_evictions_total", _DIMENSION, "Master rows thrown out of memory.",
    each(dimensions, lambda join: join.counts.evicted))
_counter(
    "millrace_cache_loads_total", _DIMENSION, "Requests to the master, of any kind.",
    each(dimensions, lambda join: join.reads.total.queries))
_counter(
    "millrace_cache_load_failures_total", _DIMENSION, "Attempts of requests that failed, retried or not.",
    each(dimensions, lambda join: join.reads.total.failures))
_counter("millrace_master_queries_total", _READ, "Queries to the master.", each(reads, lambda read: read.queries))
_counter("millrace_master_rows_total", _READ, "Rows the master returned.", each(reads, lambda read: read.rows))
_counter(
    "millrace_master_bytes_total", _READ, "Bytes the master returned, in Arrow.", each(reads, lambda read: read.bytes))
_counter(
    "millrace_master_seconds_total", _READ, "Worker seconds waiting for the master.",
    each(reads, lambda read: read.seconds))
_counter(
    "millrace_master_wait_seconds_total", _READ, "Of these, for the load contract: not asked yet.",
    each(reads, lambda read: read.waited))
_counter(
    "millrace_master_failures_total", _READ, "Attempts that failed, retried or not.",
    each(reads, lambda read: read.failures))
PHASE_SECONDS = _counter(
    "millrace_phase_seconds_total", ("phase",), "Seconds of workers in read, parse, enrich, write; in commit.",
    by(lambda answer: answer.phases))
BATCHES = _counter(
    "millrace_batches_total", ("outcome",), "Micro-batches: committed or failed.",
    by(lambda _: {COMMITTED: 1}), from_start=((COMMITTED,), (FAILED,)))
BATCH_FAILURES = _counter("millrace_batch_failures_total", ("reason",), "Failed micro-batches by what failed.")
MERGES = _counter(
    "millrace_merges_total", ("outcome",), "Merges of a table's small files beside the stream: done or failed.",
    from_start=(("done",), ("failed",)))
MERGED_FILES = _counter("millrace_merged_files_total", (), "Small files that they replaced.", from_start=((),))
MERGE_SECONDS = _counter(
    "millrace_merge_seconds_total", (), "Seconds of a driver's thread that they took.", from_start=((),))

_counter(
    "millrace_cache_forgotten_total", _DIMENSION, "Rows and absences in memory that the feed said had changed.",
    each(dimensions, lambda join: join.counts.forgotten))
FEED_CHANGES = _counter(
    "millrace_feed_changes_total", _DIMENSION, "Keys whose master rows changed, as the feed has told.")
FEED_UNKNOWN = _counter(
    "millrace_feed_unknown_total", _DIMENSION, "Times that the feed could not say which keys had changed.")

HEALED = _counter(
    "millrace_healed_facts_total", _DIMENSION, "Facts that got the master row that came late, from this job.")
HEALING_FAILURES = _counter(
    "millrace_healing_failures_total", (), "Times that healing failed; it is tried again.")

_gauge(
    "millrace_service_rate", _JOIN, "Last batch: sales served per worker second of join time.",
    each(joins, _rate), replaced=True)
PREDICTED_RATE = _gauge(
    "millrace_predicted_service_rate", _JOIN,
    "Last batch: the service rate the cost model says for windows of its sizes.",
    each(joins, lambda join: join.predicted_rate or None), replaced=True)
_gauge(
    "millrace_cache_load_seconds", _DIMENSION, "Last batch: mean duration of a request to the master.",
    each(dimensions, _mean_seconds))
_gauge(
    "millrace_cache_rows", _DIMENSION, "Master rows and absences in memory, in the last batch's workers.",
    each(dimensions, lambda join: join.cached_rows))
_gauge(
    "millrace_cache_bytes", _DIMENSION, "Bytes they take.", each(dimensions, lambda join: join.cached_bytes))
_gauge(
    "millrace_key_filters", _DIMENSION, "Workers of the last batch with a filter of all keys that answers.",
    each(dimensions, lambda join: join.key_filters))
BUDGET_USED = _gauge(
    "millrace_budget_used_bytes", ("dimension", "part"), "Join memory in use, in the last batch's workers.",
    by_dimension_and(lambda join: join.memory), replaced=True)
BUDGET_LIMIT = _gauge(
    "millrace_budget_limit_bytes", _DIMENSION, "Join memory allowed, in the last batch's workers.",
    each(dimensions, lambda join: join.memory_limit))
BACKLOG = _gauge("millrace_backlog_messages", ("topic",), "Messages in Kafka that no commit covers yet.")
_gauge(
    "millrace_last_batch_sales", (), "Sales in the last committed batch.",
    each(batch, lambda done: done.answer.sales))
_gauge("millrace_last_batch_id", (), "Number of the last committed batch.", each(batch, lambda done: done.batch))
LAST_COMMIT = _gauge(
    "millrace_last_commit_timestamp_seconds", (), "Unix time of the last commit.", each(batch, lambda done: done.at))
WORKERS = _gauge(
    "millrace_workers", (), "Python workers that took part in the last batch.",
    each(batch, lambda done: len(done.answer.workers) or None))  # an empty batch has none
_peak(
    "millrace_worker_peak_bytes", (), "Largest resident set any worker has had so far.",
    each(batch, lambda done: done.answer.peak_bytes))
LOAD_LIMIT = _gauge(
    "millrace_master_limit", ("of",),
    "What the load contract allows the job: statements and rows a second, connections; none where there is no cap.")
_gauge(
    "millrace_master_connections", (), "Sessions with the master in the last batch's workers, at most.",
    each(batch, lambda done: done.answer.sessions))
FEED_UP = _gauge("millrace_feed_up", (), "1 while the master's changes are followed; none if master.feed is off.")
FEED_LAG = _gauge(
    "millrace_feed_lag_seconds", (), "How far the feed is behind the master, or how long it has been silent.")
UNKNOWN = _gauge(
    "millrace_unknown_facts", _DIMENSION,
    "Facts with a natural key and no master row, up to warehouse.heal_age old; none if facts are not healed.")
OLDEST_UNKNOWN = _gauge(
    "millrace_oldest_unknown_timestamp_seconds", _DIMENSION, "Kafka timestamp of the oldest of them, if there is one.")
READY = _gauge("millrace_ready", (), "1 once Kafka and the master have both answered.")
BUILD_INFO = _gauge("millrace_build_info", ("version", "python", "pyarrow"), "Always 1; what is running.")

QUEUE_WAIT = _histogram(
    "millrace_queue_wait_seconds", _JOIN, "Kafka timestamp until the join admitted the sale.",
    each(joins, lambda join: join.queue_wait))
_histogram("millrace_processing_seconds", _JOIN, "Admitted until served.", each(joins, lambda join: join.processing))
FRESHNESS = _histogram(
    "millrace_freshness_seconds", (), "Kafka timestamp until the Delta commit, of every message.",
    each(batch, lambda done: done.answer.age.shifted(done.at - done.answer.at)))
