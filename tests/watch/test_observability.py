"""The job as its dashboards and alerts see it: a real Prometheus scrapes real jobs, and what it says is what is in
the tables, counted there by somebody else (DuckDB).

Two jobs read the same sales, each with another join, as the dashboard *Compare* wants it. `MILLRACE_PICTURES=folder`
keeps a picture of each dashboard. Beside them a sync keeps the history of the products.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.generate.keys import Sizes
from pipeline.laptop.stack.stack import Stack, StackInfo
from pipeline.watch import families
from pipeline.watch.families import BUCKETS
from pipeline.watch.logs import FORM
from pipeline.watch.scrape import scrape
from tests.kit import dashboards
from tests.kit.observed import (
    MESSAGES,
    REST,
    TOPIC,
    Observed,
    ages_of,
    commits_of,
    is_ready,
    make_job,
    run,
    send,
    sql,
    synced,
    url_of,
)
from tests.kit.prometheus import Prometheus
from tests.kit.running import Job, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
BOARDS = sorted((ROOT / "deploy" / "grafana" / "dashboards").glob("*.json"))
INTERVAL = "15s"  # what Grafana would make of $__rate_interval for scrapes every second, and some more
KEYS = {"product": "product_code", "customer": "customer_number", "store": "store_code"}


@pytest.fixture(scope="module")
def observed(
    tmp_path_factory: pytest.TempPathFactory, stack: Stack, seeded: StackInfo, seeded_sizes: Sizes
) -> Iterator[Observed]:
    folder = tmp_path_factory.mktemp("observed")
    stack.kafka.create_topic(TOPIC, partitions=2)
    caps = {"master.connections": "8", "master.queries_per_second": "10000", "master.rows_per_second": "10000000"}
    healing = {"warehouse.heal_rows_per_minute": "1000", **caps}
    plain = {f"dimensions.{name}.algorithm": "inlj" for name in KEYS}
    jobs = [make_job(folder / "front-stage", seeded, **healing), make_job(folder / "plain", seeded, **plain)]
    try:
        with pytest.MonkeyPatch.context() as environment:
            environment.delenv(FORM, raising=False)
            jobs[0].start()
            environment.setenv(FORM, "json")
            jobs[1].start()
        for job in jobs:
            wait_until(lambda job=job: is_ready(job), "the job is ready", 240)
        addresses = {url_of(job).split("/")[2]: job for job in jobs}
        with synced(folder / "sync", seeded) as sync:
            targets: dict[str, dict] = {**{address: {} for address in addresses}, sync: {"job": "millrace-sync"}}
            prometheus = Prometheus(folder, ROOT / "deploy" / "prometheus", targets, every="1s", supervised=True)
            prometheus.start()
            try:
                yield run(prometheus, addresses, seeded, seeded_sizes)
            finally:
                prometheus.stop()
    finally:
        for job in jobs:
            if job.running:
                job.kill()


@pytest.mark.parametrize("file", BOARDS, ids=lambda file: file.stem)
def test_every_query_of_every_panel_returns_numbers(observed: Observed, file: Path) -> None:
    panels = dashboards.read(file).panels
    queries = [dashboards.resolved(query, INTERVAL) for panel in panels for _, query in panel.queries]
    assert observed.empty_ones(queries) == []


def test_every_recording_rule_and_alert_looks_at_numbers(observed: Observed) -> None:
    rules = observed.prometheus.rules()
    assert not [rule for rule in rules if rule["health"] != "ok"]
    # With `bool` a comparison answers 0 or 1 instead of nothing, so an alert that does not fire shows what it sees.
    queries = [re.sub(r" (>|<|==) ", r" \1 bool ", rule["query"]) for rule in rules]
    assert observed.empty_ones(queries) == []


def test_every_join_predicts_its_service_rate(observed: Observed) -> None:
    predicted = observed.by("millrace_predicted_service_rate", "instance", "dimension")
    assert len(predicted) == len(observed.jobs) * len(KEYS)


def test_the_backlog_is_known_before_the_first_commit(observed: Observed) -> None:
    known = observed.by("millrace_backlog_messages", "instance", at=observed.start)
    sales = observed.by("millrace_sales_total", "instance", at=observed.start)
    assert known == sales == dict.fromkeys(sales, 0)
    assert len(known) == len(observed.jobs)
    most = observed.over_time("max by (instance) (millrace_backlog_messages)")
    assert all(max(float(value) for _, value in series["values"]) > 0 for series in most)


def test_every_phase_of_a_batch_is_told(observed: Observed) -> None:
    phases = {phase for (phase,) in observed.by("sum by (phase) (millrace_phase_seconds_total) > 0", "phase")}
    assert phases == {"read", "parse", "enrich", "write", "commit"}


def test_the_variables_of_the_dashboards_have_values(observed: Observed) -> None:
    for file in BOARDS:
        for variable in json.loads(file.read_text())["templating"]["list"]:
            if variable["type"] != "query":
                continue
            selector, label = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]).groups()
            found = observed.prometheus.query(dashboards.resolved(f"group by ({label}) ({selector})", INTERVAL))
            assert [series for series in found if series["metric"].get(label)], variable["name"]


def test_sales_rejects_and_messages_are_those_in_the_tables(observed: Observed) -> None:
    for instance, job in observed.jobs.items():
        [(facts,)] = sql(job, "fact_sales", "SELECT count(*) FROM t")
        rejects = dict(sql(job, "sales_rejects", "SELECT reason, count(*) FROM t GROUP BY reason"))
        assert observed.value(f'millrace_sales_total{{instance="{instance}"}}') == facts
        counted = observed.by(f'millrace_rejects_total{{instance="{instance}"}} > 0', "reason")
        assert counted == {(reason,): rows for reason, rows in rejects.items()}
        assert observed.value(f'sum(millrace_messages_total{{instance="{instance}"}})') == MESSAGES
        assert (
            facts + sum(rejects.values()) == MESSAGES == sum(answer.topics[TOPIC].messages for answer in observed.sent)
        )


@pytest.mark.parametrize("dimension", KEYS)
def test_outcomes_are_those_of_the_facts_for_every_algorithm(observed: Observed, dimension: str) -> None:
    query = f"""SELECT CASE WHEN {dimension}_key <> -1 THEN 'matched'
                            WHEN {KEYS[dimension]} IS NULL THEN 'null_key' ELSE 'unmatched' END, count(*)
                FROM t GROUP BY 1"""
    seen = {}
    for instance, job in observed.jobs.items():
        selector = f'millrace_served_sales_total{{instance="{instance}", dimension="{dimension}"}}'
        counted = observed.by(selector, "outcome")
        assert counted == {(outcome,): rows for outcome, rows in sql(job, "fact_sales", query)}
        assert counted["unmatched",] == sum(answer.topics[TOPIC].unknown[dimension] for answer in observed.sent)
        assert counted["null_key",] == sum(answer.topics[TOPIC].null[dimension] for answer in observed.sent)
        [(algorithm,)] = observed.by(f"group by (algorithm) ({selector})", "algorithm")
        seen[algorithm] = counted
    assert len(seen) == 2, "the two jobs are told apart by their algorithm's label"
    assert len({tuple(sorted(counted.items())) for counted in seen.values()}) == 1


def test_freshness_is_that_of_the_commits_in_the_tables_log(observed: Observed) -> None:
    for instance, job in observed.jobs.items():
        ages = ages_of(job)
        name = "millrace_freshness_seconds"
        assert observed.value(f'{name}_count{{instance="{instance}"}}') == len(ages) == MESSAGES
        mean = observed.value(f'{name}_sum{{instance="{instance}"}}') / len(ages)
        assert mean == pytest.approx(sum(ages) / len(ages), abs=0.1)
        # One batch may be held up between the commit and the look at the clock: mean and median tell that few are.
        for share, off in ((0.5, 0.1), (0.99, 0.5)):
            told = observed.value(f'histogram_quantile({share}, {name}_bucket{{instance="{instance}"}})')
            true = ages[round(share * (len(ages) - 1))]
            below = max((bound for bound in BUCKETS if bound <= true - off), default=0)
            above = min(bound for bound in BUCKETS if bound >= true + off)
            assert below * 0.98 <= told <= above * 1.02, f"p{100 * share:g}"


def test_waiting_and_processing_lie_within_freshness(observed: Observed) -> None:
    for instance in observed.jobs:
        for dimension in KEYS:
            own = f'instance="{instance}", dimension="{dimension}"'
            served = observed.value(f"sum(millrace_served_sales_total{{{own}}})")
            assert observed.value(f"millrace_queue_wait_seconds_count{{{own}}}") == served
            assert observed.value(f"millrace_processing_seconds_count{{{own}}}") == served
        waited = observed.value(f'max(millrace_queue_wait_seconds_sum{{instance="{instance}"}} / {MESSAGES})')
        fresh = observed.value(f'millrace_freshness_seconds_sum{{instance="{instance}"}}') / MESSAGES
        assert 0 < waited < fresh


def test_the_service_rate_is_sales_by_join_seconds(observed: Observed) -> None:
    for instance in observed.jobs:
        for dimension in KEYS:
            own = f'instance="{instance}", dimension="{dimension}"'
            sales = observed.growth(f"sum(millrace_served_sales_total{{{own}}})")
            seconds = observed.growth(f"sum(millrace_join_seconds_total{{{own}}})")
            assert REST * 0.95 <= sales <= MESSAGES
            assert 0 < seconds < (observed.end - observed.start) * os.cpu_count()
            recorded = observed.value(f"dimension_algorithm:millrace_service_rate:rate5m{{{own}}}")
            assert recorded == pytest.approx(sales / seconds, rel=0.1)


def test_the_last_commit_and_the_batches_are_those_of_the_log(observed: Observed) -> None:
    for instance, job in observed.jobs.items():
        commits = commits_of(job)
        own = f'{{instance="{instance}"}}'
        assert observed.value(f"millrace_last_commit_timestamp_seconds{own}") == pytest.approx(
            max(commits.values()), abs=1
        )
        assert observed.value(f'millrace_batches_total{{instance="{instance}", outcome="committed"}}') == len(commits)
        assert observed.value(f"millrace:backlog:messages{own}") == 0


def test_the_budget_is_that_of_the_settings_and_is_kept(observed: Observed) -> None:
    for (_, dimension), used in observed.by("dimension:millrace_budget_used:ratio", "instance", "dimension").items():
        assert 0 <= used <= 1, dimension
    for limit in observed.by("millrace_budget_limit_bytes", "instance", "dimension").values():
        assert limit in (32 << 20, 64 << 20)  # the default, for one worker or two


def test_status_tells_a_script_the_same(observed: Observed) -> None:
    instance, _ = observed.first
    command = [sys.executable, "-m", "pipeline.cli", "status", "--json", "--over", "0", "--endpoint", instance]
    said = json.loads(subprocess.check_output(command, text=True, cwd=ROOT))
    assert said["ready"]
    assert said["sales_total"] == observed.value(f'millrace_sales_total{{instance="{instance}"}}')
    assert said["backlog_messages"] == {TOPIC: 0}
    assert {join["dimension"] for join in said["joins"]} == set(KEYS)


def test_the_log_is_json_where_asked_for_and_knows_no_password(observed: Observed) -> None:
    plain, as_json = (job.log.read_text() for job in observed.jobs.values())
    assert observed.password not in plain + as_json
    ours = [json.loads(line) for line in as_json.splitlines() if '"logger": "millrace' in line]
    assert [line for line in ours if line["message"].startswith("running: application millrace")]
    assert "INFO millrace.job: running: application millrace" in plain


def test_every_dashboard_can_be_drawn_from_what_was_scraped(observed: Observed, tmp_path: Path) -> None:
    folder = Path(os.environ.get("MILLRACE_PICTURES") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    for file in BOARDS:
        picture = folder / f"{file.stem}.png"
        board, span = dashboards.read(file), (observed.start, observed.end)
        dashboards.draw(board, observed.over_time, INTERVAL, span, picture)
        assert 20_000 < picture.stat().st_size < 200_000


def test_after_a_restart_the_backlog_is_what_no_commit_covers(
    observed: Observed, seeded: StackInfo, seeded_sizes: Sizes
) -> None:
    _, job = observed.first  # the last test of all: it is another process from here on
    assert job.stop() == 0, job.tail()
    job.log.rename(job.log.with_suffix(".first"))
    meanwhile = 500
    send(seeded, seeded_sizes, meanwhile, first_sale=observed.sent[-1].next_sale, rate=None)
    job.start()
    wait_until(lambda: is_ready(job) and bool(_backlog(job)), "the backlog is known", 240)
    assert _backlog(job)[0] <= meanwhile
    job.wait_for(MESSAGES + meanwhile)
    wait_until(lambda: _backlog(job) == [0], "nothing waits any more", 60)


def _backlog(job: Job) -> list[float]:
    return list(scrape(url_of(job)).of(families.BACKLOG).values())
