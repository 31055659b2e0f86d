"""The names, labels and meanings of everything Millrace publishes; `metrics.py` fills them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

Labels = tuple[str, ...]


class Family(NamedTuple):
    labels: Labels
    meaning: str


# Six a decade, from 1 ms to 10 min: neighbours differ by half, and a quantile lies between two of them. Between 0.1 and
# 2 s, where the freshness of a healthy job lies, they differ by a tenth to a quarter.
_FINE = (0.12, 0.17, 0.25, 0.35, 0.4, 0.6, 0.8, 0.9, 1.2, 1.35, 1.75)
BUCKETS = np.array([step * 10.0**power for power in range(-3, 3) for step in (1, 1.5, 2, 3, 5, 7)] + [*_FINE])
BUCKETS = np.append(np.sort(np.round(BUCKETS[BUCKETS < 600], 4)), 600.0)

JOIN = ("dimension", "algorithm")
COUNTERS = {
    "millrace_messages_total": Family(("topic",), "Messages read from Kafka and committed, as facts or rejects."),
    "millrace_skipped_messages_total": Family(("topic",), "Messages left out by `millrace skip`, in all gaps so far."),
    "millrace_sales_total": Family((), "Sales committed to the facts."),
    "millrace_rejects_total": Family(("reason",), "Messages committed to the rejects."),
    "millrace_served_sales_total": Family((*JOIN, "outcome"), "Sales served: matched, unmatched or null_key."),
    "millrace_join_seconds_total": Family(JOIN, "Worker seconds in the join, waiting for the master included."),
    "millrace_cache_hits_total": Family(("dimension",), "Sales served from memory, remembered absences included."),
    "millrace_cache_misses_total": Family(("dimension",), "Sales for which the master had to be asked."),
    "millrace_cache_evictions_total": Family(("dimension",), "Master rows thrown out of memory."),
    "millrace_cache_loads_total": Family(("dimension",), "Requests to the master, of any kind."),
    "millrace_cache_load_failures_total": Family(("dimension",), "Attempts of requests that failed, retried or not."),
    "millrace_master_queries_total": Family(("dimension", "kind"), "Queries to the master."),
    "millrace_master_rows_total": Family(("dimension", "kind"), "Rows the master returned."),
    "millrace_master_bytes_total": Family(("dimension", "kind"), "Bytes the master returned, in Arrow."),
    "millrace_master_seconds_total": Family(("dimension", "kind"), "Worker seconds waiting for the master."),
    "millrace_master_failures_total": Family(("dimension", "kind"), "Attempts that failed, retried or not."),
    "millrace_phase_seconds_total": Family(("phase",), "Seconds of workers in read, parse, enrich, write; in commit."),
    "millrace_batches_total": Family(("outcome",), "Micro-batches: committed or failed."),
    "millrace_batch_failures_total": Family(("reason",), "Failed micro-batches by what failed."),
}
GAUGES = {
    "millrace_service_rate": Family(JOIN, "Last batch: sales served per worker second of join time."),
    "millrace_predicted_service_rate": Family(
        JOIN, "Last batch: the service rate the cost model says for windows of its sizes."
    ),
    "millrace_cache_load_seconds": Family(("dimension",), "Last batch: mean duration of a request to the master."),
    "millrace_cache_rows": Family(("dimension",), "Master rows and absences in memory, in the last batch's workers."),
    "millrace_cache_bytes": Family(("dimension",), "Bytes they take."),
    "millrace_budget_used_bytes": Family(("dimension", "part"), "Join memory in use, in the last batch's workers."),
    "millrace_budget_limit_bytes": Family(("dimension",), "Join memory allowed, in the last batch's workers."),
    "millrace_backlog_messages": Family(("topic",), "Messages in Kafka that no commit covers yet."),
    "millrace_last_batch_sales": Family((), "Sales in the last committed batch."),
    "millrace_last_batch_id": Family((), "Number of the last committed batch."),
    "millrace_last_commit_timestamp_seconds": Family((), "Unix time of the last commit."),
    "millrace_workers": Family((), "Python workers that took part in the last batch."),
    "millrace_worker_peak_bytes": Family((), "Largest resident set any worker has had so far."),
    "millrace_ready": Family((), "1 once Kafka and the master have both answered."),
    "millrace_build_info": Family(("version", "python", "pyarrow"), "Always 1; what is running."),
}
HISTOGRAMS = {
    "millrace_queue_wait_seconds": Family(JOIN, "Kafka timestamp until the join admitted the sale."),
    "millrace_processing_seconds": Family(JOIN, "Admitted until served."),
    "millrace_freshness_seconds": Family((), "Kafka timestamp until the Delta commit, of every message."),
}
