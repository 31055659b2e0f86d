"""The panel tells of any job what its endpoint says, and never falls over an endpoint that says nothing."""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import numpy as np
import pytest
from rich.console import Console

from pipeline.answers.histogram import Histogram
from pipeline.answers.task import DimensionAnswer, TaskAnswer
from pipeline.joins.counts import JoinStatistics
from pipeline.watch.panel import Panel, plain
from pipeline.watch.publish import Metrics
from pipeline.watch.scrape import NoAnswer, Scrape, compare, scrape


def an_answer(sales: int = 1_000, wait: float = 0.3, **counts: int) -> TaskAnswer:
    joined = {"matched": sales * 95 // 100, "unmatched": sales // 20, "null_keys": sales // 100} | counts
    product = DimensionAnswer(
        algorithm="inlj",
        counts=JoinStatistics(hits=sales * 8 // 10, misses=sales // 5, **joined),
        seconds=sales / 50_000,
        memory={"cache": 8 << 20, "sales": 1 << 20},
        memory_limit=32 << 20,
        queue_wait=Histogram.of(np.full(sales, wait)),
    )
    return TaskAnswer(
        sales=sales,
        rejected={"not_json": sales // 50},
        topics={"sales": sales + sales // 50},
        dimensions={"product": product},
        workers=["here:1", "here:2"],
        age=Histogram.of(np.full(sales, 1.0)),
        at=100.0,
    )


def scraped(metrics: Metrics, at: float) -> Scrape:
    port = metrics.serve("127.0.0.1", 0)
    seen = scrape(f"http://127.0.0.1:{port}/metrics")
    metrics.close()
    return Scrape(at, seen.samples)


@pytest.fixture
def job() -> Iterator[tuple[Metrics, str]]:
    metrics = Metrics()
    port = metrics.serve("127.0.0.1", 0)
    yield metrics, f"127.0.0.1:{port}"
    metrics.close()


def test_rates_and_shares_are_those_between_the_two_looks() -> None:
    metrics = Metrics()
    metrics.published(an_answer(sales=5_000, wait=60.0, unmatched=0), 101.0, 0)
    earlier = scraped(metrics, at=1_000.0)
    metrics.published(an_answer(sales=1_000), 1_003.0, 1)
    metrics.backlog({"sales": 30, "returns": 12})
    metrics.ready()
    seen = compare(earlier, scraped(metrics, at=1_004.0))
    assert seen.rate == 250.0
    assert seen.sales == 6_000
    assert seen.rejects == 120
    assert seen.rejects_share == pytest.approx(20 / 1_020)
    assert seen.committed_ago == 1.0
    assert seen.backlog == {"sales": 30, "returns": 12}
    assert seen.ready
    [product] = seen.joins
    assert (product.dimension, product.algorithm) == ("product", "inlj")
    assert product.service_rate == pytest.approx(50_000)
    assert product.hits == pytest.approx(0.8)
    assert product.unmatched == pytest.approx(0.04)  # a null key is not an unmatched one
    assert product.queue_wait[1] is not None
    assert 0.3 <= product.queue_wait[1] <= 0.5  # its bucket, and not the minute of the first batch
    assert (product.used_bytes, product.limit_bytes) == (9 << 20, 32 << 20)


def test_the_first_look_knows_no_rate_and_shows_everything_since_the_job_began() -> None:
    metrics = Metrics()
    metrics.published(an_answer(), 101.0, 0)
    seen = compare(None, scraped(metrics, at=102.0))
    assert seen.rate is None
    assert seen.sales == 1_000
    assert seen.joins[0].hits == pytest.approx(0.8)


def test_between_two_looks_without_a_batch_nothing_is_made_up() -> None:
    metrics = Metrics()
    metrics.published(an_answer(), 101.0, 0)
    seen = compare(scraped(metrics, 102.0), scraped(metrics, 103.0))
    assert seen.rate == 0.0
    assert seen.freshness == (None, None)
    assert seen.rejects_share is None
    assert (seen.joins[0].hits, seen.joins[0].service_rate) == (None, None)


def test_a_job_that_was_started_anew_has_no_negative_rate() -> None:
    old, new = Metrics(), Metrics()
    old.published(an_answer(sales=9_000), 101.0, 0)
    new.published(an_answer(sales=500), 111.0, 0)
    assert compare(scraped(old, 100.0), scraped(new, 110.0)).rate == 50.0


def test_a_quantile_lies_within_its_bucket() -> None:
    metrics = Metrics()
    answer = an_answer()
    answer.age = Histogram.of(np.concatenate([np.full(90, 0.25), np.full(10, 40.0)]))
    metrics.published(answer, answer.at, 0)
    p50, p99 = compare(None, scraped(metrics, 1.0)).freshness
    assert p50 is not None
    assert p99 is not None
    assert 0.2 <= p50 <= 0.3
    assert 30 <= p99 <= 50


def test_a_running_job_is_seen_through_its_endpoint_alone(job: tuple[Metrics, str]) -> None:
    metrics, endpoint = job
    panel = Panel(endpoint)
    assert panel.snapshot().rate is None
    metrics.published(an_answer(), 101.0, 0)
    seen = panel.snapshot()
    assert seen.rate is not None
    assert seen.rate > 0
    assert seen.rates == (seen.rate,)


def test_everything_an_operator_asks_for_is_on_the_panel(job: tuple[Metrics, str]) -> None:
    metrics, endpoint = job
    metrics.published(an_answer(), 101.0, 0)
    metrics.backlog({"sales": 12_034})
    panel = Panel(endpoint)
    panel.snapshot()
    metrics.published(an_answer(), 102.0, 1)
    drawn = io.StringIO()
    Console(file=drawn, width=130, force_terminal=False).print(panel.render(panel.snapshot()))
    text = drawn.getvalue()
    for expected in ("sales/s", "freshness", "p99", "12,034 messages", "last commit", "rejects", "product", "inlj",
                     "80.0 %", "4.0 %", "9.0 MiB of 2 workers x 16.0 MiB", "██░░", "█\n",
                     "throughput", "service rate", "queue wait p50", "cache hits", "unmatched"):  # fmt: skip
        assert re.sub(r"[ │]+\n", "\n", text).find(expected) >= 0, f"{expected} not in\n{text}"


def test_a_prediction_is_shown_as_what_the_service_rate_is_of_it(job: tuple[Metrics, str]) -> None:
    metrics, endpoint = job
    answer = an_answer()
    answer.dimensions["product"].predicted_rate = 40_000.0
    metrics.published(answer, 101.0, 0)
    panel = Panel(endpoint)
    drawn = io.StringIO()
    Console(file=drawn, width=130).print(panel.render(panel.snapshot()))
    assert "÷ predicted" in drawn.getvalue()
    assert "1.25" in drawn.getvalue()  # 50,000 by 40,000
    answer.dimensions["product"].predicted_rate = 0.0
    metrics.published(answer, 101.0, 1)
    Console(file=drawn, width=130).print(panel.render(panel.snapshot()))
    assert drawn.getvalue().count("÷ predicted") == 1


def test_where_nothing_listens_the_panel_waits_and_says_for_what() -> None:
    metrics = Metrics()
    port = metrics.serve("127.0.0.1", 0)
    metrics.close()
    panel = Panel(f"127.0.0.1:{port}")
    seen = panel.snapshot()
    assert "waiting for the job" in seen.problem
    assert f"http://127.0.0.1:{port}/metrics" in seen.problem
    assert "refused" in plain(seen)
    drawn = io.StringIO()
    Console(file=drawn, width=130).print(panel.render(seen))
    assert "waiting for the job" in drawn.getvalue()


def test_a_job_that_comes_back_is_not_compared_with_the_one_that_went(job: tuple[Metrics, str]) -> None:
    metrics, endpoint = job
    panel = Panel(endpoint)
    metrics.published(an_answer(), 101.0, 0)
    panel.snapshot()
    metrics.close()
    assert panel.snapshot().problem
    metrics.serve("127.0.0.1", int(endpoint.partition(":")[2]))
    back = panel.snapshot()
    assert not back.problem
    assert back.rate is None


@pytest.mark.parametrize("body", [b"<html>hello</html>", b"up 1\n", b"\xff\xfe", b""])
def test_another_server_is_no_job(body: bytes) -> None:
    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Other) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            with pytest.raises(NoAnswer, match=r"no Millrace job|not with metrics"):
                scrape(f"http://127.0.0.1:{server.server_port}/metrics")
        finally:
            server.shutdown()


def crowded() -> TaskAnswer:
    """A job whose every figure is long."""
    answer = an_answer(wait=590.0)
    usual = answer.dimensions["product"]
    answer.sales, answer.rejected, answer.topics = 98_765_432, {"not_json": 1_975_308}, {"sales": 100_740_740}
    for name, algorithm in (("product", "auto"), ("customer", "x-hybridjoin"), ("store", "front stage + hybridjoin")):
        answer.dimensions[name] = DimensionAnswer(
            algorithm=algorithm,
            counts=JoinStatistics(matched=93_826_750, unmatched=4_938_250, hits=79_012_000, misses=19_753_000),
            seconds=100.0,
            predicted_rate=3_456_789.0,
            memory={"cache": 1_000 << 20},
            memory_limit=2_000 << 20,
            queue_wait=usual.queue_wait,
        )
    return answer


def test_three_dimensions_fit_a_terminal_of_80_columns_and_24_lines(job: tuple[Metrics, str]) -> None:
    metrics, endpoint = job
    metrics.published(crowded(), 101.0, 0)
    metrics.backlog({f"sales-of-country-{n}": 123_456_789 for n in range(9)})
    metrics.ready()
    panel = Panel(endpoint)
    panel._rates.extend(float(n) for n in range(200))
    drawn = io.StringIO()
    Console(file=drawn, width=80, height=24).print(panel.render(panel.snapshot()))
    lines = drawn.getvalue().splitlines()
    assert len(lines) <= 23  # one is the prompt's
    assert max(map(len, lines)) <= 80
    for whole in ("987,650", "queue wait p50", "9 min 5", "80.0 %", "1000 MiB of 2 workers x 1000 MiB", "0.29"):
        assert whole in drawn.getvalue(), f"{whole} is cut in\n{drawn.getvalue()}"


def test_one_worker_has_the_whole_of_the_memory(job: tuple[Metrics, str]) -> None:
    metrics, endpoint = job
    answer = an_answer()
    answer.workers = ["here:1"]
    metrics.published(answer, 101.0, 0)
    drawn = io.StringIO()
    panel = Panel(endpoint)
    Console(file=drawn, width=80).print(panel.render(panel.snapshot()))
    assert "9.0 MiB of 32.0 MiB" in drawn.getvalue()


@pytest.mark.parametrize("terminal", [True, False])
def test_where_no_job_is_it_ends_with_a_sentence_unless_told_to_wait(terminal: bool) -> None:
    metrics = Metrics()
    port = metrics.serve("127.0.0.1", 0)
    metrics.close()
    panel = Panel(f"127.0.0.1:{port}", Console(file=io.StringIO(), force_terminal=terminal))
    with pytest.raises(NoAnswer, match=r"no job answers .* Start one with `millrace run`"):
        panel.run(until=lambda: False, wait=False)


@pytest.mark.parametrize("terminal", [True, False])
def test_when_the_job_has_ended_it_ends_with_a_sentence(
    terminal: bool, job: tuple[Metrics, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for pause in ("_PLAIN_LINE", "_REFRESH", "_GONE_AFTER"):
        monkeypatch.setattr(f"pipeline.watch.panel.{pause}", 0.01)
    metrics, endpoint = job
    metrics.published(an_answer(), 101.0, 0)
    written = io.StringIO()

    def end_the_job() -> bool:
        if written.getvalue().count("freshness") >= 2:
            metrics.close()
        return False

    with pytest.raises(NoAnswer, match="has ended"):
        Panel(endpoint, Console(file=written, force_terminal=terminal)).run(until=end_the_job, wait=False)


def test_without_a_terminal_it_writes_plain_lines_and_ends_when_told(
    job: tuple[Metrics, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.watch.panel._PLAIN_LINE", 0.01)
    metrics, endpoint = job
    metrics.published(an_answer(), 101.0, 0)
    written = io.StringIO()
    Panel(endpoint, Console(file=written)).run(until=lambda: written.getvalue().count("\n") >= 3)
    lines = written.getvalue().splitlines()
    assert len(lines) == 4  # one more when it ends
    assert all("sales/s" in line and "freshness p50" in line and "\x1b" not in line for line in lines)


def test_on_a_terminal_it_draws_in_place(job: tuple[Metrics, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.watch.panel._REFRESH", 0.01)
    metrics, endpoint = job
    metrics.published(an_answer(), 101.0, 0)
    written = io.StringIO()
    console = Console(file=written, force_terminal=True, width=120, height=40)
    Panel(endpoint, console).run(until=lambda: written.getvalue().count("freshness") >= 3)
    assert "\x1b[1A" in written.getvalue()  # the cursor goes up again
    assert "\x1b[?1049h" not in written.getvalue()  # and the alternate screen is left alone
