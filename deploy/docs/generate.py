#!/usr/bin/env python
"""Writes metrics.md from the code that publishes the metrics; `--check` only says whether it is up to date."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pipeline.watch.families import BUCKETS, COUNTERS, GAUGES, HISTOGRAMS
from pipeline.watch.family import Family
from pipeline.watch.sync import OF_SYNC

PAGE = Path(__file__).with_name("metrics.md")

_HEAD = """\
# Metrics

Written by `deploy/docs/generate.py` from `pipeline/watch/families.py` and `sync.py`. The driver publishes them for
Prometheus at `/metrics` of `metrics.host`, `metrics.port`. Everything is counted after the commit, so a task that was
tried twice counts once.

One quantity has one name: here, in the README's glossary, on the dashboards, in `millrace top`, `millrace status` and
`millrace explain`.

| quantity | metric or query |
|---|---|
| throughput | `rate(millrace_sales_total[5m])` |
| service rate | `dimension_algorithm:millrace_service_rate:rate5m` (recorded); last batch: `millrace_service_rate` |
| predicted service rate | `millrace_predicted_service_rate` |
| queue wait | `millrace_queue_wait_seconds` |
| processing time | `millrace_processing_seconds` |
| freshness | `millrace_freshness_seconds` |
| backlog | `millrace_backlog_messages` |
| cache hits | `dimension:millrace_cache_hits:ratio_rate5m` (recorded) |
| cache hits to the optimum | `dimension:millrace_cache_hits:observed_to_predicted` (recorded) |
| unmatched | `dimension:millrace_unmatched:ratio_rate5m` (recorded) |

The same port answers `/metrics/minute-ago` with the metrics as they were a minute ago (`millrace status` compares with
them), `/live` as soon as the process serves, and `/ready` with 200 once Kafka and the master data have both answered,
before that with 503. Python's own `process_*` metrics of the driver are there too.

What is recorded and what alerts: [`prometheus/rules`](../prometheus/rules). What to do then: the
[runbook](runbook.md).
"""

_SYNC = """\
`millrace sync --follow` publishes these and no others, at `metrics.host`, `metrics.sync_port`. Counters end in `_total`
and begin at 0 with each start. `/ready` answers 200 once the log is followed for all its dimensions. For Prometheus it
is an entry of its own in [`targets`](../prometheus/prometheus.yml), with the label `job` = `millrace-sync`."""

_FLINK = """
## For those who come from Flink

Its look-up cache metrics, each by `dimension`:

| Flink | here |
|---|---|
| hitCount | `millrace_cache_hits_total` |
| missCount | `millrace_cache_misses_total` |
| loadCount | `millrace_cache_loads_total`: one load is one request to the master |
| numLoadFailures | `millrace_cache_load_failures_total`: attempts, retried or not |
| latestLoadTime | `millrace_cache_load_seconds`: mean of the last batch's requests |
| numCachedRecord | `millrace_cache_rows` |
| numCachedBytes | `millrace_cache_bytes` |
"""


def page() -> str:
    return "".join(_parts())


def _parts() -> Iterator[str]:
    yield _HEAD
    yield from _section("Counters", "They only grow, and begin at 0 with each start of the job.", COUNTERS)
    yield from _section("Gauges", "They say how it is now, or how it was in the last batch.", GAUGES)
    bounds = ", ".join(f"{bound:g}" for bound in BUCKETS.tolist())
    yield from _section(
        "Histograms", f"Each with `_bucket`, `_count` and `_sum`. Buckets end at {bounds} s.", HISTOGRAMS
    )
    yield from _section("Of a sync", _SYNC, {**OF_SYNC.counters, **OF_SYNC.gauges})
    yield _FLINK


def _section(title: str, sentence: str, families: Mapping[str, Family[Any]]) -> Iterator[str]:
    yield f"\n## {title}\n\n{sentence}\n\n| metric | labels | meaning |\n|---|---|---|\n"
    for name, family in families.items():
        labels = ", ".join(f"`{label}`" for label in family.labels) or "-"
        yield f"| `{name}` | {labels} | {family.meaning} |\n"


def main() -> None:
    if sys.argv[1:] == ["--check"]:
        current = PAGE.is_file() and PAGE.read_text("utf-8") == page()
        sys.exit(None if current else f"{PAGE.name} is out of date. Run deploy/docs/generate.py.")
    PAGE.write_text(page(), "utf-8")


if __name__ == "__main__":
    main()
