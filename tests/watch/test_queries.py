"""Every panel, rule and alert has an answer as soon as a job publishes all there is to publish, predictions included.

The endpoint and Prometheus are real, the batches are made up here; tests/watch/test_observability.py has real ones.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from pipeline.master.feed import Changes
from pipeline.watch.publish import Metrics
from pipeline.watch.sync import SyncMetrics
from tests.kit import dashboards
from tests.kit.prometheus import Prometheus
from tests.kit.running import wait_until
from tests.watch.test_metrics import an_answer

DEPLOYED = Path(__file__).parents[2] / "deploy"
BOARDS = sorted((DEPLOYED / "grafana" / "dashboards").glob("*.json"))


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """It has scraped three jobs, each with an algorithm of its own, through some batches, and a sync."""
    jobs = {algorithm: Metrics() for algorithm in ("front stage + inlj", "meshjoin", "auto")}
    targets: dict[str, dict] = {f"127.0.0.1:{metrics.serve('127.0.0.1', 0)}": {} for metrics in jobs.values()}
    sync = SyncMetrics(["product"])
    targets[f"127.0.0.1:{sync.serve('127.0.0.1', 0)}"] = {"job": "millrace-sync"}
    folder = tmp_path_factory.mktemp("prometheus")
    server = Prometheus(folder, DEPLOYED / "prometheus", targets, every="200ms", supervised=True)
    server.start()

    def three_batches_are_scraped() -> bool:
        for algorithm, metrics in jobs.items():
            answer = an_answer(algorithm=algorithm)
            answer.at = time.time()
            metrics.published(answer, time.time(), 0)
            metrics.backlog({"sales": 3})
            metrics.contract({"statements": 40.0, "rows": 9_000.0, "connections": 4.0})
            metrics.feed(True, 0.1, Changes({"product": pa.array([7])}))
            metrics.healing({"product": 1}, {"product": (2, time.time())})
        sync.snapshot("product", 1, 2)
        sync.followed("product", time.time())
        return len(server.query("changes(millrace_sales_total[1m]) >= 3")) == len(jobs)

    try:
        wait_until(three_batches_are_scraped, "three batches of each job are scraped", 60)
        yield server
    finally:
        server.stop()
        for metrics in (*jobs.values(), sync):
            metrics.close()


def has_numbers(prometheus: Prometheus, query: str) -> bool:
    return any(math.isfinite(float(series["value"][1])) for series in prometheus.query(query))


@pytest.mark.parametrize("file", BOARDS, ids=lambda file: file.stem)
def test_every_query_of_every_panel_has_an_answer(prometheus: Prometheus, file: Path) -> None:
    asking = [(panel, query) for panel in dashboards.read(file).panels for _, query in panel.queries]
    assert len(asking) >= 10
    for panel, query in asking:
        asked = dashboards.resolved(query, "1m")
        wait_until(lambda asked=asked: has_numbers(prometheus, asked), f"{panel.title} shows numbers: {asked}", 20)


def test_every_rule_and_alert_has_something_to_look_at(prometheus: Prometheus) -> None:
    rules = prometheus.rules()
    assert len(rules) >= 10
    for rule in rules:
        asked = re.sub(r" (>|<|==) ", r" \1 bool ", rule["query"])
        wait_until(lambda asked=asked: has_numbers(prometheus, asked), f"{rule['name']} sees numbers: {asked}", 20)


def test_a_panel_shows_only_what_is_chosen(prometheus: Prometheus) -> None:
    [compare] = [board for board in map(dashboards.read, BOARDS) if board.title.endswith("Compare")]
    [(_, query)] = compare.panels[1].queries
    for algorithm in ("meshjoin", "front stage [+] inlj"):
        asked = dashboards.resolved(query, "1m", {"algorithm": algorithm})
        assert [re.fullmatch(algorithm, series["metric"]["algorithm"]) for series in prometheus.query(asked)]
        assert len(prometheus.query(asked)) == 1


def test_the_predicted_rate_and_its_ratio_are_those_that_were_published(prometheus: Prometheus) -> None:
    predicted = prometheus.query("millrace_predicted_service_rate")
    assert [series["value"][1] for series in predicted] == ["500", "500", "500"]
    for series in prometheus.query("dimension_algorithm:millrace_service_rate:observed_to_predicted"):
        assert float(series["value"][1]) == pytest.approx(400 / 500, rel=0.05)  # 100 sales in 0.25 s of join time
