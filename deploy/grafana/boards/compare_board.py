"""*Compare*: the same sales through several algorithms, each in a job of its own, told apart by their labels."""

from __future__ import annotations

from boards.parts import Dashboard, curves, dashboard, per_second, quantiles

_DIMENSION = 'instance=~"$instance", dimension=~"$dimension"'
_JOIN = f'{_DIMENSION}, algorithm=~"$algorithm"'
_BY = ("instance", "dimension", "algorithm")
_NAMED = "{{algorithm}} · {{dimension}} · {{instance}}"
_SERVED, _SECONDS = "millrace_served_sales_total", "millrace_join_seconds_total"
# Counters of cache and master carry no algorithm; a dimension of a job has one at a time, and this knows which.
_LABELS = f"group by ({', '.join(_BY)}) (millrace_service_rate{{{_JOIN}}})"
_LABELLED = f"on (instance, dimension) group_left (algorithm) {_LABELS}"


def board() -> Dashboard:
    return dashboard(
        "millrace-compare",
        "Millrace / Compare",
        "The same sales through several algorithms. Run a job for each, with its own name, checkpoint, tables and "
        "metrics port, on the same topic, and scrape them all (deploy/prometheus/targets).",
        ["instance", "dimension", "algorithm"],
        {"Speed": _speed(), "Waiting": _waiting(), "Price": _price(), "Answers": _answers()},
    )


def _speed() -> list:
    predicted = f"avg by ({', '.join(_BY)}) (millrace_predicted_service_rate{{{_JOIN}}})"
    return [
        curves(
            "Service rate", "Sales served per second of join time.", "ops",
            {_NAMED: f"{per_second(_SERVED, _JOIN, _BY)} / {per_second(_SECONDS, _JOIN, _BY)}"}, width=8,
        ),
        curves(
            "Predicted service rate", "What the cost model says of each.", "ops", {_NAMED: predicted}, width=8,
        ),
        curves(
            "Throughput", "Sales committed a second by each job: parsing and writing included.", "ops",
            {"{{instance}}": per_second("millrace_sales_total", 'instance=~"$instance"', ["instance"])}, width=8,
        ),
    ]  # fmt: skip


def _waiting() -> list:
    return [
        curves(
            "Queue wait", "Kafka timestamp until the join admits the sale.", "s",
            quantiles("millrace_queue_wait_seconds", _JOIN, _BY, _NAMED), width=8,
        ),
        curves(
            "Processing time", "From admission until the sale is served.", "s",
            quantiles("millrace_processing_seconds", _JOIN, _BY, _NAMED), width=8,
        ),
        curves(
            "Freshness", "Kafka timestamp to Delta commit, of every message of each job.", "s",
            quantiles("millrace_freshness_seconds", 'instance=~"$instance"', ["instance"], "{{instance}}"), width=8,
        ),
    ]  # fmt: skip


def _price() -> list:
    by = _BY[:2]
    served = per_second(_SERVED, _JOIN, by)
    hits, misses = (per_second(f"millrace_cache_{what}_total", _DIMENSION, by) for what in ("hits", "misses"))
    asked = per_second("millrace_master_queries_total", _DIMENSION, by)
    rows = per_second("millrace_master_rows_total", _DIMENSION, by)
    memory = f"sum by (instance, dimension) (millrace_budget_used_bytes{{{_DIMENSION}}})"
    return [
        curves(
            "Requests for 1 000 sales", "What the algorithm asks of the master for a thousand sales.", "short",
            {_NAMED: f"1000 * {asked} / {served} * {_LABELLED}"}, width=6,
        ),
        curves(
            "Rows for each sale", "Master rows fetched for each sale; a scan fetches many, a cache few.", "short",
            {_NAMED: f"{rows} / {served} * {_LABELLED}"}, width=6,
        ),
        curves(
            "Cache hits", "Share of the sales served from memory.", "percentunit",
            {_NAMED: f"{hits} / ({hits} + {misses}) * {_LABELLED}"}, width=6,
        ),
        curves("Memory", "Join memory in use.", "bytes", {_NAMED: f"{memory} * {_LABELLED}"}, width=6),
    ]  # fmt: skip


def _answers() -> list:
    total = f"sum by ({', '.join(_BY)}, outcome) ({_SERVED}{{{_JOIN}}})"
    return [
        curves(
            "Sales served since the start",
            "By outcome. Jobs that have read the same sales must show the same numbers.", "short",
            {f"{{{{outcome}}}} · {_NAMED}": total}, width=24,
        ),
    ]  # fmt: skip
