"""*Join*: how each dimension's join does, and what it asks of the master."""

from __future__ import annotations

from boards.parts import GREEN, RED, YELLOW, Dashboard, curves, dashboard, number, per_second, quantiles

_DIMENSION = 'instance=~"$instance", dimension=~"$dimension"'
_JOIN = f'{_DIMENSION}, algorithm=~"$algorithm"'
_BY_JOIN = ("dimension", "algorithm")
_NAMED = "{{dimension}} {{algorithm}}"
_QUEUE_WAIT = "millrace_queue_wait_seconds"
_PROCESSING = "millrace_processing_seconds"
_SERVED, _SECONDS = "millrace_served_sales_total", "millrace_join_seconds_total"
_AUTO_WINDOWS = "millrace_auto_windows_total"
_OBSERVED = f"{per_second(_SERVED, _JOIN, _BY_JOIN)} / {per_second(_SECONDS, _JOIN, _BY_JOIN)}"
_PREDICTED = f"avg by (dimension, algorithm) (millrace_predicted_service_rate{{{_JOIN}}})"
_BUDGET_USED = f"dimension:millrace_budget_used:ratio{{{_DIMENSION}}}"
_OFF = [(None, RED), (0.5, GREEN), (2, RED)]


def board() -> Dashboard:
    return dashboard(
        "millrace-join",
        "Millrace / Join",
        "Service rate, waiting, cache, memory and master load of each dimension's join; predicted against observed.",
        ["instance", "dimension", "algorithm"],
        {
            "Now": _now(),
            "Service": _service(),
            "Cache and memory": _memory(),
            "Load on the master": _master(),
        },
    )


def _now() -> list:
    hits, misses = (per_second(f"millrace_cache_{what}_total", _DIMENSION) for what in ("hits", "misses"))
    unmatched = per_second(_SERVED, f'{_JOIN}, outcome="unmatched"')
    return [
        number(
            "Service rate", "Sales served per second of join time, all chosen joins together.", "ops",
            f"{per_second(_SERVED, _JOIN)} / {per_second(_SECONDS, _JOIN)}",
        ),
        number(
            "Queue wait p99", "Kafka timestamp until the join admits the sale: the topic is the stream buffer.", "s",
            quantiles(_QUEUE_WAIT, _JOIN)["p99"], [(5, YELLOW), (10, RED)],
        ),
        number(
            "Processing p99", "From admission until the sale is served.", "s", quantiles(_PROCESSING, _JOIN)["p99"],
        ),
        number(
            "Cache hits", "Share of the sales served from memory.", "percentunit", f"{hits} / ({hits} + {misses})",
            decimals=1,
        ),
        number(
            "Unmatched", "Share of the sales whose key the master table does not have.", "percentunit",
            f"{unmatched} / {per_second(_SERVED, _JOIN)}", [(0.03, YELLOW), (0.05, RED)], decimals=1,
        ),
        number(
            "Budget used", "The fullest dimension's share of its memory.", "percentunit",
            f"max({_BUDGET_USED})", [(0.9, YELLOW), (0.95, RED)], decimals=1,
        ),
    ]  # fmt: skip


def _service() -> list:
    return [
        curves(
            "Service rate", "Sales served per second of join time, waiting for the master included.", "ops",
            {_NAMED: _OBSERVED},
        ),
        curves(
            "Predicted against observed", "What the cost model says the service rate should be, and what it is.", "ops",
            {f"observed {_NAMED}": _OBSERVED, f"predicted {_NAMED}": _PREDICTED},
        ),
        curves(
            "Observed by predicted", "1: the model is right. Beyond 0.5 or 2 for 15 minutes it is an alert.", "none",
            {_NAMED: f"{_OBSERVED} / {_PREDICTED}"}, _OFF, width=8,
        ),
        curves(
            "Queue wait", "Kafka timestamp until the join admits the sale. It grows when the joins are too slow.", "s",
            quantiles(_QUEUE_WAIT, _JOIN, ["dimension"], "{{dimension}}"), width=8,
        ),
        curves(
            "Processing time", "From admission until the sale is served.", "s",
            quantiles(_PROCESSING, _JOIN, ["dimension"], "{{dimension}}"), width=8,
        ),
        curves(
            "Outcome", "Sales served a second: matched, unmatched (no such key), null key.", "ops",
            {"{{dimension}} {{outcome}}": per_second(_SERVED, _JOIN, ["dimension", "outcome"])}, width=12,
        ),
        curves(
            "Ways of auto", "Windows a second that auto fetched by look-ups, by pages or by a scan.",
            "ops", {"{{dimension}} {{way}}": per_second(_AUTO_WINDOWS, _DIMENSION, ["dimension", "way"])},
            stacked=True, width=12,
        ),
    ]  # fmt: skip


def _memory() -> list:
    hits, misses, optimum = (
        per_second(f"millrace_cache_{what}_total", _DIMENSION, ["dimension"])
        for what in ("hits", "misses", "predicted_hits")
    )
    return [
        curves(
            "Cache hits", "Share of the sales served from memory, remembered absences included.", "percentunit",
            {"{{dimension}}": f"{hits} / ({hits} + {misses})"}, width=5,
        ),
        curves(
            "Cache hits to the optimum",
            "By those that as many of the most wanted rows would have, with the skew of the settings. A fifth below "
            "the day's best for half an hour, with a full cache, is an alert.",
            "percentunit", {"{{dimension}}": f"{hits} / {optimum}"}, width=5,
        ),
        curves(
            "Rows in memory", "Master rows and absences kept, and rows thrown out a second.", "short",
            {
                "{{dimension}}": f"sum by (dimension) (millrace_cache_rows{{{_DIMENSION}}})",
                "{{dimension}} thrown out a second": per_second(
                    "millrace_cache_evictions_total", _DIMENSION, ["dimension"]
                ),
            },
            width=5,
        ),
        curves(
            "Budget by part", "Memory in use by part of the join, in the last batch's workers.", "bytes",
            {"{{dimension}} {{part}}": f"sum by (dimension, part) (millrace_budget_used_bytes{{{_DIMENSION}}})"},
            stacked=True, width=5,
        ),
        curves(
            "Budget used", "Share of the dimension's memory that is in use. A join never takes more than all.",
            "percentunit", {"{{dimension}}": f"max by (dimension) ({_BUDGET_USED})"}, [(0.95, RED)], width=4,
        ),
    ]  # fmt: skip


def _master() -> list:
    by = ["dimension", "kind"]
    queries = per_second("millrace_master_queries_total", _DIMENSION, by)
    seconds = per_second("millrace_master_seconds_total", _DIMENSION, by)
    named = "{{dimension}} {{kind}}"
    return [
        curves(
            "Requests", "Requests to the master a second, by kind: lookup, page, scan, describe.", "reqps",
            {named: queries}, width=6,
        ),
        curves(
            "Rows", "Rows the master returned a second.", "rowsps",
            {named: per_second("millrace_master_rows_total", _DIMENSION, by)}, width=6,
        ),
        curves(
            "Seconds a request", "Mean duration of a request, as the worker sees it.", "s",
            {named: f"{seconds} / {queries}"}, width=6,
        ),
        curves(
            "Requests at work", "Worker seconds waiting for the master, a second: how many requests run side by side.",
            "short", {named: seconds}, width=6,
        ),
    ]  # fmt: skip
