"""*Pipeline*: what an operator watches. Is it fresh, does it keep up, does anything go wrong?"""

from __future__ import annotations

from boards.parts import RED, YELLOW, Dashboard, curves, dashboard, number, per_second, quantiles

_JOB = 'instance=~"$instance"'
_TOPIC = f'{_JOB}, topic=~"$topic"'
_DIMENSION = f'{_JOB}, dimension=~"$dimension"'
_OF_ANY = 'dimension=~"$dimension"'  # of any process
_FRESHNESS = quantiles("millrace_freshness_seconds", _JOB)
_LATE = [(10, RED)]  # the objective of deploy/prometheus/rules/recording.yml


def board() -> Dashboard:
    return dashboard(
        "millrace-pipeline",
        "Millrace / Pipeline",
        "From Kafka to the warehouse: freshness, throughput, backlog, errors.",
        ["instance", "topic", "dimension"],
        {
            "Now": _now(),
            "Freshness and throughput": _flow(),
            "Errors": _errors(),
            "Master": _master(),
            "Batches and workers": _batches(),
        },
    )


def _now() -> list:
    rejects = f"{per_second('millrace_rejects_total', _JOB)} / {per_second('millrace_messages_total', _JOB)}"
    return [
        number(
            "Freshness p99", "99 of 100 messages are in the warehouse so long after their Kafka timestamp, or sooner.",
            "s", _FRESHNESS["p99"], [(5, YELLOW), *_LATE],
        ),
        number("Throughput", "Sales committed a second.", "ops", per_second("millrace_sales_total", _JOB)),
        number(
            "Backlog", "Messages in Kafka that no commit covers yet.", "short",
            f"sum(millrace_backlog_messages{{{_TOPIC}}})", [(100_000, YELLOW), (1_000_000, RED)],
        ),
        number(
            "Last commit", "Time since the last commit; before the first, since the start.", "s",
            f"max(millrace:last_commit_age:seconds{{{_JOB}}})", [(60, YELLOW), (120, RED)],
        ),
        number(
            "Rejects", "Share of the messages that are not valid sales.", "percentunit", rejects,
            [(0.005, YELLOW), (0.01, RED)], decimals=2,
        ),
        number(
            "Alerts firing", "Alerts of Millrace that fire now. Each names its section of the runbook.", "short",
            f'count(ALERTS{{alertname=~"Millrace.+", alertstate="firing", {_JOB}}}) or vector(0)', [(1, RED)],
        ),
    ]  # fmt: skip


def _flow() -> list:
    late = {
        f"{window} {{{{instance}}}}": f"millrace:freshness_late:ratio_rate{window}{{{_JOB}}}"
        for window in ("5m", "1h", "6h")
    }
    return [
        curves(
            "Freshness", "Kafka timestamp to Delta commit, of every message.", "s",
            _FRESHNESS, _LATE,
        ),
        curves(
            "Late messages", "Share that was later than 10 s, over three windows. The objective allows 1 %.",
            "percentunit", late, [(0.01, YELLOW), (0.144, RED)],
        ),
        curves(
            "Throughput", "Messages committed a second, by topic, and the sales among them.", "ops",
            {
                "{{topic}}": per_second("millrace_messages_total", _TOPIC, ["topic"]),
                "sales": per_second("millrace_sales_total", _JOB),
            },
        ),
        curves(
            "Backlog", "Messages in Kafka that no commit covers yet. Growing for long: the job is too slow.", "short",
            {"{{topic}}": f"sum by (topic) (millrace_backlog_messages{{{_TOPIC}}})"}, stacked=True,
        ),
    ]  # fmt: skip


def _errors() -> list:
    unmatched = f"max by (dimension) (dimension:millrace_unmatched:ratio_rate5m{{{_DIMENSION}}})"
    return [
        curves(
            "Rejects by reason", "Messages a second that are not valid sales. They are kept in the table of rejects.",
            "ops", {"{{reason}}": per_second("millrace_rejects_total", _JOB, ["reason"])}, stacked=True, width=8,
        ),
        curves(
            "Unmatched", "Share of the sales whose key the master table does not have (null keys are not counted).",
            "percentunit", {"{{dimension}}": unmatched},
            [(0.05, RED)], width=8,
        ),
        curves(
            "Failed reads and batches", "Failed attempts at the master's data, and failed micro-batches, a second.",
            "ops",
            {
                "reads of {{dimension}}": per_second("millrace_master_failures_total", _DIMENSION, ["dimension"]),
                "batches": per_second("millrace_batches_total", f'{_JOB}, outcome="failed"'),
            },
            width=8,
        ),
    ]  # fmt: skip


_USED = {
    "statements": f"sum by (instance) (rate(millrace_master_queries_total{{{_JOB}}}[$__rate_interval]))",
    "rows": f"sum by (instance) (rate(millrace_master_rows_total{{{_JOB}}}[$__rate_interval]))",
    "connections": f"sum by (instance) (millrace_master_connections{{{_JOB}}})",
}


def _master() -> list:
    oldest = f"min by (dimension) (millrace_oldest_unknown_timestamp_seconds{{{_DIMENSION}}})"
    return [
        curves(
            "Changes", "Keys whose master rows changed a second, as the feed tells; rows in memory forgotten for it.",
            "ops",
            {
                "{{dimension}} changed": per_second("millrace_feed_changes_total", _DIMENSION, ["dimension"]),
                "{{dimension}} forgotten": per_second("millrace_cache_forgotten_total", _DIMENSION, ["dimension"]),
            },
            width=8,
        ),
        curves(
            "Feed lag", "How far the feed is behind the master, or how long it has been silent.", "s",
            {"{{instance}}": f"millrace_feed_lag_seconds{{{_JOB}}}"}, [(10, RED)], width=8,
        ),
        curves(
            "Asked of the master", "Queries and rows a second, of all workers.", "ops",
            {
                "{{dimension}} queries": per_second("millrace_master_queries_total", _DIMENSION, ["dimension"]),
                "{{dimension}} rows": per_second("millrace_master_rows_total", _DIMENSION, ["dimension"]),
            },
            width=8,
        ),
        curves(
            "Healed", "Facts a second that got the master row that came late, from a job that heals.", "ops",
            {"{{dimension}}": per_second("millrace_healed_facts_total", _DIMENSION, ["dimension"])}, width=8,
        ),
        curves(
            "Unknown facts", "Facts that still wait for their master row, up to warehouse.heal_age old.", "short",
            {"{{dimension}}": f"sum by (dimension) (millrace_unknown_facts{{{_DIMENSION}}})"}, width=8,
        ),
        curves(
            "Oldest unknown fact", "How long the oldest of them has waited.", "s",
            {"{{dimension}}": f"time() - {oldest}"}, [(86_400, RED)], width=8,
        ),
        curves(
            "Load against contract",
            "What is asked of the master, as a share of what [master] allows the job. Empty without caps.",
            "percentunit",
            {
                f"{{{{instance}}}} {what}": f'{used} / sum by (instance) (millrace_master_limit{{{_JOB}, of="{what}"}})'
                for what, used in _USED.items()
            },
            [(1, RED)], width=12,
        ),
        curves(
            "Waiting for the contract", "Of the joins' time, the share in which the master may not be asked yet.",
            "percentunit", {"{{instance}}": f"millrace:master_wait:ratio_rate5m{{{_JOB}}}"}, [(0.5, RED)], width=12,
        ),
        *_history(),
    ]  # fmt: skip


def _history() -> list:
    """Of `millrace sync --follow`, which is a process of its own."""
    behind = f"time() - max by (dimension) (millrace_sync_position_timestamp_seconds{{{_OF_ANY}}})"
    read, expected = (
        f"max by (dimension) (millrace_sync_snapshot_{name}{{{_OF_ANY}}})" for name in ("rows", "expected_rows")
    )
    return [
        curves(
            "History", "Changes that came into the dim_ tables a second, and versions of rows that began.", "ops",
            {
                "{{dimension}} changes": per_second("millrace_sync_changes_total", _OF_ANY, ["dimension"]),
                "{{dimension}} versions": per_second("millrace_sync_versions_total", _OF_ANY, ["dimension"]),
            },
            width=8,
        ),
        curves(
            "History lag", "How far the dim_ tables are behind the master: what came later is not in them yet.", "s",
            {"{{dimension}}": behind}, [(300, RED)], width=8,
        ),
        curves(
            "Snapshot", "Of the rows of the master table, the share that the newest snapshot has read.", "percentunit",
            {"{{dimension}}": f"{read} / {expected}"}, width=8,
        ),
    ]  # fmt: skip


def _batches() -> list:
    seconds = per_second("millrace_phase_seconds_total", _JOB, ["phase"])
    batches = per_second("millrace_batches_total", f'{_JOB}, outcome="committed"')
    return [
        curves(
            "Seconds by phase", "Worker seconds a batch spends in each phase; workers run side by side.", "s",
            {"{{phase}}": f"{seconds} / ignoring (phase) group_left {batches}"}, stacked=True, width=8,
        ),
        curves(
            "Sales in a batch", "Sales of the last committed batch.", "short",
            {"{{instance}}": f"millrace_last_batch_sales{{{_JOB}}}"}, width=8,
        ),
        curves(
            "Worker memory", "Largest resident set any Python worker has had since the start.", "bytes",
            {"{{instance}}": f"millrace_worker_peak_bytes{{{_JOB}}}"}, width=8,
        ),
    ]  # fmt: skip
