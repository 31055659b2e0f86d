"""What Prometheus is told is exactly what was committed."""

from __future__ import annotations

import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from prometheus_client.parser import text_string_to_metric_families

from pipeline.answers.histogram import Histogram
from pipeline.answers.task import DimensionAnswer, TaskAnswer
from pipeline.errors import BadSetting
from pipeline.joins.counts import JoinStatistics
from pipeline.master.feed import Changes
from pipeline.master.port import ReadCount, Reads
from pipeline.watch.families import BUCKETS
from pipeline.watch.moments import Moment, Past
from pipeline.watch.publish import Metrics
from tests.kit.fakes import FakeClock

COMMITTED_AT = 1_800_000_000.0


@pytest.fixture
def metrics() -> Iterator[Metrics]:
    metrics = Metrics()
    yield metrics
    metrics.close()


def an_answer(sales: int = 100, age: float = 2.0, algorithm: str = "front stage + inlj") -> TaskAnswer:
    product = DimensionAnswer(
        algorithm=algorithm,
        counts=JoinStatistics(
            matched=90, unmatched=10, null_keys=4, ruled_out=3, hits=70, misses=23, evicted=5, looked_up=6, by_scan=1
        ),
        reads=Reads({"lookup": ReadCount(queries=2, rows=20, bytes=2_000, seconds=0.5, failures=1)}),
        seconds=0.25,
        predicted_rate=500.0,
        predicted_hits=75.0,
        memory={"cache": 1_000, "sales": 500},
        memory_limit=4_000,
        queue_wait=Histogram.of(np.full(sales, age)),
        processing=Histogram.of(np.full(sales, 0.02)),
    )
    return TaskAnswer(
        sales=sales,
        rejected={"not_json": 3, "too_large": 1},
        topics={"sales": sales + 4},
        dimensions={"product": product},
        age=Histogram.of(np.full(sales + 4, age)),
        at=COMMITTED_AT - 0.5,
        phases={"parse": 0.1, "write": 0.2},
        workers=["here:1", "there:1"],
        peak_bytes=300 << 20,
    )


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def samples(metrics: Metrics) -> dict[tuple[str, ...], float]:
    """Name and label values, in the labels' alphabetical order, to value, as a scrape has them."""
    port = metrics.serve("127.0.0.1", 0)
    text = get(f"http://127.0.0.1:{port}/metrics")[1]
    metrics.close()
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_two_batches_add_up_exactly(metrics: Metrics) -> None:
    metrics.published(an_answer(), COMMITTED_AT, 7)
    metrics.published(an_answer(), COMMITTED_AT + 1, 8)
    found = samples(metrics)
    assert found["millrace_messages_total", "sales"] == 208
    assert found["millrace_sales_total",] == 200
    assert found["millrace_rejects_total", "not_json"] == 6
    join = "front stage + inlj", "product"
    assert found["millrace_served_sales_total", join[0], join[1], "matched"] == 180
    assert found["millrace_served_sales_total", join[0], join[1], "unmatched"] == 12  # a null key is counted apart
    assert found["millrace_served_sales_total", join[0], join[1], "null_key"] == 8
    assert found["millrace_join_seconds_total", join[0], join[1]] == 0.5
    assert found["millrace_cache_hits_total", "product"] == 140
    assert found["millrace_cache_predicted_hits_total", "product"] == 150
    assert found["millrace_cache_misses_total", "product"] == 46
    assert found["millrace_ruled_out_sales_total", "product"] == 6
    assert found["millrace_cache_loads_total", "product"] == 4
    assert found["millrace_cache_load_failures_total", "product"] == 2
    assert found["millrace_master_rows_total", "product", "lookup"] == 40
    assert found["millrace_phase_seconds_total", "write"] == 0.4
    assert found["millrace_batches_total", "committed"] == 2


def test_a_gauge_shows_the_last_batch(metrics: Metrics) -> None:
    metrics.published(an_answer(), COMMITTED_AT, 7)
    last = an_answer(sales=50)
    last.dimensions["product"].memory = {"cache": 2_000}
    last.dimensions["product"].cached_bytes = 1_900
    last.dimensions["product"].key_filters = 2
    last.peak_bytes = 1
    metrics.published(last, COMMITTED_AT + 60, 8)
    found = samples(metrics)
    assert found["millrace_last_batch_id",] == 8
    assert found["millrace_last_batch_sales",] == 50
    assert found["millrace_last_commit_timestamp_seconds",] == COMMITTED_AT + 60
    assert found["millrace_service_rate", "front stage + inlj", "product"] == 400
    assert found["millrace_predicted_service_rate", "front stage + inlj", "product"] == 500
    assert found["millrace_cache_bytes", "product"] == 1_900
    assert found["millrace_key_filters", "product"] == 2
    assert found["millrace_cache_load_seconds", "product"] == 0.25
    assert found["millrace_budget_used_bytes", "product", "cache"] == 2_000
    assert ("millrace_budget_used_bytes", "product", "sales") not in found
    assert found["millrace_budget_limit_bytes", "product"] == 4_000
    assert found["millrace_worker_peak_bytes",] == 300 << 20  # a peak does not sink
    assert found["millrace_workers",] == 2


def a_past(clock: FakeClock) -> Past:
    past = Past(clock)
    past.note(Moment({"begun": {(): clock.now}}, {}))
    return past


def test_a_minute_ago_is_the_latest_moment_that_is_a_minute_old() -> None:
    clock = FakeClock()
    past = a_past(clock)
    for _ in range(600):
        clock.advance(0.25)
        past.note(Moment({"begun": {(): clock.now}}, {}))
    moment, ago = past.minute_ago()
    assert clock.now - moment.values["begun"][()] == ago
    assert 60 <= ago <= 62
    assert len(past._moments) <= 32  # however often it is told


def test_a_younger_job_is_compared_with_its_beginning_and_an_idle_one_with_a_minute_ago() -> None:
    clock = FakeClock()
    past = a_past(clock)
    clock.advance(7)
    assert past.minute_ago()[1] == 7
    clock.advance(3_600)  # nothing happened in this hour: it was so a minute ago as well
    assert past.minute_ago()[1] <= 62


def test_a_join_without_a_prediction_publishes_none(metrics: Metrics) -> None:
    metrics.published(an_answer(), COMMITTED_AT, 7)
    without = an_answer()
    without.dimensions["product"].predicted_rate = 0.0
    metrics.published(without, COMMITTED_AT + 1, 8)
    assert not [labels for labels in samples(metrics) if labels[0] == "millrace_predicted_service_rate"]


def test_rates_of_an_algorithm_that_is_not_used_any_more_are_gone_and_its_counters_stay(metrics: Metrics) -> None:
    metrics.published(an_answer(), COMMITTED_AT, 7)
    other = an_answer()
    other.dimensions["product"].algorithm = "meshjoin"
    metrics.published(other, COMMITTED_AT + 1, 8)
    found = samples(metrics)
    for rate in ("millrace_service_rate", "millrace_predicted_service_rate"):
        assert [labels for labels in found if labels[0] == rate] == [(rate, "meshjoin", "product")]
    assert found["millrace_served_sales_total", "front stage + inlj", "product", "matched"] == 90
    assert found["millrace_served_sales_total", "meshjoin", "product", "matched"] == 90


def test_only_auto_tells_which_way_it_took(metrics: Metrics) -> None:
    metrics.published(an_answer(), COMMITTED_AT, 7)
    assert not [labels for labels in samples(metrics) if labels[0] == "millrace_auto_windows_total"]
    for batch in (8, 9):
        metrics.published(an_answer(algorithm="auto"), COMMITTED_AT, batch)
    found = samples(metrics)
    ways = {labels[2]: value for labels, value in found.items() if labels[0] == "millrace_auto_windows_total"}
    assert ways == {"look-ups": 12, "pages": 0, "scan": 2}


def test_freshness_is_the_age_at_the_commit_and_not_at_the_end_of_the_work(metrics: Metrics) -> None:
    metrics.published(an_answer(age=2.0), COMMITTED_AT, 0)  # the work ended half a second before the commit
    found = samples(metrics)
    assert found["millrace_freshness_seconds_bucket", "2.0"] == 0
    assert found["millrace_freshness_seconds_bucket", "3.0"] == 104
    assert found["millrace_freshness_seconds_count",] == 104
    assert found["millrace_freshness_seconds_sum",] == pytest.approx(104 * 2.5)


def test_buckets_count_every_observation_once(metrics: Metrics) -> None:
    waits = np.random.default_rng(1).lognormal(0, 3, 10_000)
    answer = an_answer()
    answer.dimensions["product"].queue_wait = Histogram.of(waits)
    metrics.published(answer, COMMITTED_AT, 0)
    found = samples(metrics)
    join = "front stage + inlj", "product"
    for bound in BUCKETS.tolist():
        count = found["millrace_queue_wait_seconds_bucket", join[0], join[1], str(bound)]
        assert (waits <= bound / 1.011).sum() <= count <= (waits <= bound * 1.011).sum()
    assert found["millrace_queue_wait_seconds_bucket", join[0], join[1], "+Inf"] == 10_000
    assert found["millrace_queue_wait_seconds_sum", join[0], join[1]] == pytest.approx(waits.sum())


def test_buckets_reach_from_a_millisecond_to_ten_minutes() -> None:
    assert (BUCKETS[0], BUCKETS[-1]) == (0.001, 600.0)
    assert (BUCKETS[1:] / BUCKETS[:-1]).max() <= 1.7


def test_the_answers_own_histograms_are_not_touched(metrics: Metrics) -> None:
    answer = an_answer()
    metrics.published(answer, COMMITTED_AT, 0)
    metrics.published(an_answer(), COMMITTED_AT, 1)
    assert answer.dimensions["product"].queue_wait.count == 100
    assert answer.age.count == 104


def test_an_empty_batch_changes_no_counter_but_that_of_batches(metrics: Metrics) -> None:
    metrics.published(TaskAnswer(), COMMITTED_AT, 0)
    found = samples(metrics)
    assert found["millrace_batches_total", "committed"] == 1
    assert found["millrace_sales_total",] == 0
    assert found["millrace_freshness_seconds_count",] == 0


def test_a_failed_batch_is_counted_by_its_reason(metrics: Metrics) -> None:
    metrics.batch_failed("MasterReadFailed")
    found = samples(metrics)
    assert found["millrace_batches_total", "failed"] == 1
    assert found["millrace_batch_failures_total", "MasterReadFailed"] == 1


def test_counters_start_at_zero_so_that_a_rate_sees_the_first_event(metrics: Metrics) -> None:
    found = samples(metrics)
    assert found["millrace_batches_total", "failed"] == 0
    assert found["millrace_batches_total", "committed"] == 0
    assert found["millrace_sales_total",] == 0
    assert found["millrace_rejects_total", "not_json"] == 0
    metrics.backlog({"sales": 7})  # the first that is known of a topic, before any commit
    assert samples(metrics)["millrace_messages_total", "sales"] == 0


def test_a_topic_that_is_gone_has_no_backlog(metrics: Metrics) -> None:
    metrics.backlog({"sales": 5, "returns": 2})
    metrics.backlog({"sales": 0})
    found = samples(metrics)
    assert found["millrace_backlog_messages", "sales"] == 0
    assert ("millrace_backlog_messages", "returns") not in found


def test_names_follow_prometheus_rules(metrics: Metrics) -> None:
    metrics.published(an_answer(algorithm="auto"), COMMITTED_AT, 0)
    metrics.backlog({"sales": 1})
    metrics.batch_failed("x")
    metrics.skipped({"sales": 1})
    metrics.feed(True, 0.0, Changes({"product": pa.array([7])}, frozenset({"product"})))
    metrics.contract({"rows": 5_000.0})
    metrics.healing({"product": 1}, {"product": (1, COMMITTED_AT)})
    for family in metrics.collect():
        assert family.name.startswith("millrace_")
        assert family.documentation.endswith((".", "…"))
        assert not family.name.endswith(("_milliseconds", "_kib", "_percent"))
        assert len(family.samples) > 0, f"{family.name} is declared and never set"


def test_what_is_not_capped_has_no_limit(metrics: Metrics) -> None:
    metrics.contract({"statements": 0.5, "rows": 5_000.0, "connections": 0.0})
    limits = {key[1]: value for key, value in samples(metrics).items() if key[0] == "millrace_master_limit"}
    assert limits == {"statements": 0.5, "rows": 5_000.0}


def test_healed_facts_add_up_and_unknown_ones_are_shown_as_they_are(metrics: Metrics) -> None:
    assert ("millrace_unknown_facts", "product") not in samples(metrics), "a job that does not heal does not count"
    metrics.healing({"product": 3}, {"product": (5, COMMITTED_AT), "store": (0, None)})
    metrics.healing({"product": 4}, {"product": (1, COMMITTED_AT + 60), "store": (2, COMMITTED_AT)})
    metrics.healing({}, {"product": (0, None), "store": (2, COMMITTED_AT)})
    metrics.healing_failed()
    found = samples(metrics)
    assert found["millrace_healed_facts_total", "product"] == 7
    assert found["millrace_healed_facts_total", "store"] == 0
    assert (found["millrace_unknown_facts", "product"], found["millrace_unknown_facts", "store"]) == (0, 2)
    assert found["millrace_oldest_unknown_timestamp_seconds", "store"] == COMMITTED_AT
    assert ("millrace_oldest_unknown_timestamp_seconds", "product") not in found
    assert found["millrace_healing_failures_total",] == 1


def test_the_feed_is_seen_with_what_it_told_and_how_late_it_is(metrics: Metrics) -> None:
    metrics.feed(True, 0.2, Changes(all_of=frozenset({"product"})))
    metrics.feed(True, 0.3, Changes({"product": pa.array([7, 8])}))
    assert samples(metrics)["millrace_feed_changes_total", "product"] == 2
    assert samples(metrics)["millrace_feed_unknown_total", "product"] == 1
    metrics.feed(False, 4.0, Changes())
    assert samples(metrics)["millrace_feed_up",] == 0
    assert samples(metrics)["millrace_feed_lag_seconds",] == 4.0


def test_probes_say_alive_at_once_and_ready_only_when_told(metrics: Metrics) -> None:
    base = f"http://127.0.0.1:{metrics.serve('127.0.0.1', 0)}"
    assert get(f"{base}/live")[0] == 200
    assert get(f"{base}/ready")[0] == 503
    metrics.ready()
    assert get(f"{base}/ready")[0] == 200
    assert get(f"{base}/elsewhere")[0] == 404


def test_a_scrape_in_the_openmetrics_format_is_answered_in_it(metrics: Metrics) -> None:
    metrics.published(an_answer(), COMMITTED_AT, 0)
    port = metrics.serve("127.0.0.1", 0)
    accept = {"Accept": "application/openmetrics-text; version=1.0.0"}
    with urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers=accept)) as answer:
        assert "openmetrics-text" in answer.headers["Content-Type"]
        assert answer.read().endswith(b"# EOF\n")


def test_a_taken_port_is_an_error_that_names_the_setting(metrics: Metrics) -> None:
    port = metrics.serve("127.0.0.1", 0)
    with pytest.raises(BadSetting, match=rf"127\.0\.0\.1:{port}.*metrics\.port"):
        Metrics().serve("127.0.0.1", port)


@pytest.mark.parametrize(("host", "port"), [("127.0.0.1", 70_000), ("203.0.113.7", 0)])
def test_an_address_that_cannot_be_is_an_error_that_names_the_setting(host: str, port: int) -> None:
    with pytest.raises(BadSetting, match=r"metrics\.host"):
        Metrics().serve(host, port)


def test_a_scrape_never_sees_half_a_batch(metrics: Metrics) -> None:
    published = threading.Event()

    def publish() -> None:
        for batch in range(300):
            metrics.published(an_answer(), COMMITTED_AT, batch)
        published.set()

    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # threads take turns in the middle of everything
    thread = threading.Thread(target=publish)
    try:
        thread.start()
        while not published.is_set():
            seen = {sample.name: sample.value for family in metrics.collect() for sample in family.samples}
            batches = seen["millrace_sales_total"] / 100
            assert seen.get("millrace_messages_total", 0) == batches * 104
            assert seen.get("millrace_freshness_seconds_count", 0) == batches * 104
            assert seen.get("millrace_processing_seconds_count", 0) == batches * 100
    finally:
        thread.join()
        sys.setswitchinterval(usual)
    assert batches > 0
