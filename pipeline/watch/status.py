"""`millrace status`: one look at a running job, for a script or a glance."""

from __future__ import annotations

import time
from typing import Any

from pipeline.watch.access import OPEN, Access
from pipeline.watch.scrape import JoinSnapshot, Snapshot, compare, minute_ago, scrape

Pair = tuple[float | None, float | None]


def look(url: str, over: float | None = None, access: Access = OPEN) -> Snapshot:
    """What the job does now, at once: compared with what it did a minute ago, which it keeps itself.

    With `over`, compared with what it did so many seconds ago, which takes these seconds. With 0 rates are unknown,
    and shares are those since the start. Raises `NoAnswer` where no job is.
    """
    if over is None:
        now = scrape(url, access)
        return compare(minute_ago(url, access), now)
    if over <= 0:
        return compare(None, scrape(url, access))
    earlier = scrape(url, access)
    time.sleep(over)
    return compare(earlier, scrape(url, access))


def as_data(seen: Snapshot, url: str) -> dict[str, Any]:
    """The same for JSON: base units, and null for what is not known. Names do not change between releases."""
    return {
        "endpoint": url,
        "ready": seen.ready,
        "sales_per_second": seen.rate,
        "freshness_seconds": _quantiles(seen.freshness),
        "last_commit_age_seconds": seen.committed_ago,
        "backlog_messages": dict(sorted(seen.backlog.items())),
        "sales_total": round(seen.sales),
        "rejects_total": round(seen.rejects),
        "rejects_share": seen.rejects_share,
        "workers": seen.workers,
        "batches_total": round(seen.batches),
        "failed_batches_total": round(seen.failed_batches),
        "joins": [_join(join) for join in seen.joins],
    }


def _join(join: JoinSnapshot) -> dict[str, Any]:
    return {
        "dimension": join.dimension,
        "algorithm": join.algorithm,
        "service_rate": join.service_rate,
        "predicted_service_rate": join.predicted_rate,
        "queue_wait_seconds": _quantiles(join.queue_wait),
        "cache_hit_share": join.hits,
        "unmatched_share": join.unmatched,
        "memory_used_bytes": round(join.used_bytes),
        "memory_limit_bytes": round(join.limit_bytes),
    }


def _quantiles(pair: Pair) -> dict[str, float | None]:
    return {"p50": pair[0], "p99": pair[1]}
