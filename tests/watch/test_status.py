"""`millrace status` says once how a job does: data on stdout, the verdict in the exit code."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from typer.testing import CliRunner

from pipeline.cli import app
from pipeline.watch.moments import Past
from pipeline.watch.publish import Metrics
from pipeline.watch.scrape import NoAnswer
from tests.kit.fakes import FakeClock
from tests.watch.test_panel import an_answer


@pytest.fixture
def job() -> Iterator[tuple[Metrics, str]]:
    metrics = Metrics()
    port = metrics.serve("127.0.0.1", 0)
    yield metrics, f"127.0.0.1:{port}"
    metrics.close()


def test_as_json_it_is_one_object_with_base_units(job: tuple[Metrics, str]) -> None:
    metrics, endpoint = job
    answer = an_answer()
    answer.dimensions["product"].predicted_rate = 42_000.0
    metrics.published(answer, 101.0, 0)
    metrics.backlog({"sales": 12})
    metrics.batch_failed("MasterReadFailed")
    metrics.ready()
    answer = CliRunner().invoke(app, ["status", "--json", "--over", "0", "--endpoint", endpoint])
    said = json.loads(answer.stdout)
    assert answer.exit_code == 0
    assert said["endpoint"] == f"http://{endpoint}/metrics"
    assert said["ready"] is True
    assert said["sales_total"] == 1_000
    assert said["sales_per_second"] is None  # one look knows no rate
    assert said["backlog_messages"] == {"sales": 12}
    assert (said["batches_total"], said["failed_batches_total"]) == (1, 1)
    [join] = said["joins"]
    assert (join["dimension"], join["algorithm"]) == ("product", "inlj")
    assert join["predicted_service_rate"] == 42_000
    assert join["cache_hit_share"] == pytest.approx(0.8)
    assert join["unmatched_share"] == pytest.approx(0.04)
    assert join["memory_limit_bytes"] == 32 << 20
    assert join["queue_wait_seconds"]["p50"] <= join["queue_wait_seconds"]["p99"]


def test_without_more_it_answers_at_once_with_the_rates_of_the_last_minute(
    job: tuple[Metrics, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(seconds: float) -> None:
        raise AssertionError("status waits")

    clock = FakeClock()
    metrics, endpoint = job
    metrics._past = Past(clock)
    metrics.ready()
    for second in range(300):  # a batch a second: slow ones at first, and in the last minute a hundred sales each
        clock.advance(1)
        late = second >= 240
        metrics.published(an_answer(sales=100 if late else 7, wait=0.3 if late else 60.0), 100.0 + second, second)
    monkeypatch.setattr("pipeline.watch.status.time.sleep", never)
    answer = CliRunner().invoke(app, ["status", "--json", "--endpoint", endpoint])
    said = json.loads(answer.stdout)
    assert said["sales_per_second"] == pytest.approx(100, rel=0.05)
    assert said["joins"][0]["queue_wait_seconds"]["p99"] < 1
    assert said["workers"] == 2


def test_a_job_that_has_just_begun_knows_no_rate_yet(job: tuple[Metrics, str]) -> None:
    metrics, endpoint = job
    metrics.ready()
    metrics.published(an_answer(), 101.0, 0)
    answer = CliRunner().invoke(app, ["status", "--json", "--endpoint", endpoint])
    assert json.loads(answer.stdout)["sales_per_second"] is None


def test_two_looks_give_a_rate(job: tuple[Metrics, str]) -> None:
    metrics, endpoint = job
    metrics.ready()
    metrics.published(an_answer(), 101.0, 0)
    answer = CliRunner().invoke(app, ["status", "--json", "--over", "0.05", "--endpoint", endpoint])
    assert json.loads(answer.stdout)["sales_per_second"] == 0


def test_for_people_it_is_the_panel(job: tuple[Metrics, str]) -> None:
    metrics, endpoint = job
    metrics.published(an_answer(), 101.0, 0)
    metrics.ready()
    answer = CliRunner().invoke(app, ["status", "--over", "0", "--endpoint", endpoint])
    assert answer.exit_code == 0
    assert "freshness" in answer.stdout
    assert "product" in answer.stdout


def test_a_job_that_is_still_starting_is_exit_code_1(job: tuple[Metrics, str]) -> None:
    answer = CliRunner().invoke(app, ["status", "--json", "--over", "0", "--endpoint", job[1]])
    assert answer.exit_code == 1
    assert json.loads(answer.stdout)["ready"] is False


def test_where_no_job_is_it_says_so(job: tuple[Metrics, str]) -> None:
    metrics, endpoint = job
    metrics.close()
    answer = CliRunner().invoke(app, ["status", "--over", "0", "--endpoint", endpoint])
    assert isinstance(answer.exception, NoAnswer)  # main() prints it and exits with 2
    assert answer.stdout == ""
