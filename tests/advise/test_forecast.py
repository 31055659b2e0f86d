"""The tuning questions: how little memory reaches a rate, what a rate makes of a join, and what bounds the job."""

from dataclasses import replace

import pytest

from pipeline import joins
from pipeline.advise.demand import Demand, Way
from pipeline.advise.forecast import memory_for_rate
from pipeline.joins import JOINS, Options
from pipeline.joins.cost.question import Relation, Stream
from pipeline.joins.cost.unit_costs import UnitCosts
from pipeline.joins.cost.zipf import Zipf
from pipeline.watch.scrape import Scrape

RELATION = Relation(R_t=200_000, v_R=60.0, words=1, row_bytes=152.0)
SMALL = Relation(R_t=500, v_R=60.0, words=1, row_bytes=152.0)
MEMORY = 32 << 20


@pytest.mark.parametrize("name", ["meshjoin", "hybridjoin", "inlj"])
def test_the_least_memory_for_a_rate_gives_that_rate_and_less_does_not(name):
    least = joins.least_memory(name, RELATION, Options())
    rate = joins.predict(name, 20 * least + (1 << 20), RELATION, Options()).mu / 3
    memory = memory_for_rate(name, RELATION, Options(), rate)
    assert joins.predict(name, memory, RELATION, Options()).mu >= rate
    assert joins.predict(name, int(0.8 * memory), RELATION, Options()).mu < rate


def test_a_rate_that_no_memory_reaches_is_told():
    slow = Options(costs=replace(UnitCosts(), c_O=1.0))
    assert memory_for_rate("meshjoin", RELATION, slow, 1_000) is None


def of_rate(rate: float, window: int = 125_000, staleness: float = 300.0) -> Options:
    usual = Options()
    return replace(usual, stream=replace(usual.stream, batch=window, life=rate * staleness), planned=usual.stream)


@pytest.mark.parametrize("name", ["auto", "cmeshjoin", "x-hybridjoin", "partitioned", "ssij"])
def test_rows_that_are_kept_are_read_again_when_they_have_grown_too_old(name):
    for_ever = joins.predict(name, MEMORY, SMALL, Options())
    short, long = (joins.predict(name, MEMORY, SMALL, of_rate(5_000, staleness=s)) for s in (1, 300))
    assert for_ever.queries < 1e-6
    assert short.queries / short.mu > long.queries / long.mu > 0
    assert short.mu < long.mu < for_ever.mu


def test_the_expired_share_of_a_cache_is_what_playing_it_gives():
    rows, e, life = 1_000, 1.0, 200_000
    weights = [1 / rank**e for rank in range(1, rows + 1)]
    together = 16_384
    missing = 0.0
    for weight in weights:  # each row for itself: read, young for so many sales, then read again by the next offer
        p = weight / sum(weights)
        offers = life / together + 1 / (1 - (1 - p) ** together)  # from read to read
        missing += p * (1 / (1 - (1 - p) ** together)) / offers
    assert 1 - Stream(e=e, life=life).hits(rows, replace(SMALL, R_t=rows)) == pytest.approx(missing, rel=0.02)


def test_without_an_end_of_their_life_a_cache_of_all_rows_misses_nothing():
    assert Stream().hits(500, SMALL) == pytest.approx(1.0)
    assert Zipf(500, 1.0, beyond=100).share(100) == 0.0
    assert 0 < Zipf(500, 1.0, beyond=100, life=1e6).share(100) < 0.05


@pytest.mark.parametrize("name", JOINS)
def test_a_small_window_is_served_more_slowly_than_a_large_one(name):
    few, many = (joins.predict(name, MEMORY, RELATION, of_rate(5_000, window)).mu for window in (1_000, 125_000))
    assert few < many


@pytest.mark.parametrize("name", JOINS)
def test_a_memory_is_split_as_planned_whatever_sales_come_in_the_end(name):
    large = replace(RELATION, R_t=2_000_000)
    for memory in (1 << 20, 8 << 20):
        planned = joins.predict(name, memory, large, Options())
        other = joins.predict(name, memory, large, of_rate(1_000, 2_000))
        first = next(iter(planned.split))  # the cache, where there is one
        assert other.split[first] == planned.split[first]


DEMAND = Demand(rate=10_000, workers=2, counted=True, period=2.0, most=250_000, window=125_000)
PATH, BATCH = DEMAND.way.path, DEMAND.way.batch


def test_the_job_is_never_faster_than_its_way_without_any_join():
    fastest = DEMAND.capacity(DEMAND.seconds([4e6, 4e6, 4e6]))
    assert fastest < DEMAND.capacity(PATH) < 2 / PATH
    assert DEMAND.capacity(DEMAND.seconds([50_000])) < 0.6 * fastest


def test_four_times_the_workers_bring_less_than_four_times_as_much_because_batches_cost_something_themselves():
    one, four = (replace(DEMAND, workers=workers).capacity(PATH) for workers in (1, 4))
    assert 1 < four / one < 4


def test_more_than_the_job_can_do_waits_for_ever_and_less_waits_half_of_a_period_and_of_a_batch():
    seconds = DEMAND.seconds([500_000])
    assert replace(DEMAND, rate=DEMAND.capacity(seconds) * 1.01).queue_wait(seconds) is None
    expected = 1.0 + (BATCH + 20_000 * seconds / 2) / 2
    assert DEMAND.queue_wait(seconds) == pytest.approx(expected)


def test_what_is_left_for_a_join_lets_the_job_just_keep_up():
    others = PATH + 2e-6
    left = DEMAND.seconds_left(others)
    assert DEMAND.capacity(others + left) == pytest.approx(DEMAND.rate)
    assert replace(DEMAND, rate=1e6).seconds_left(others) < 0  # for no join can be that fast


def test_a_window_is_as_large_as_the_sales_of_a_period_and_no_larger_than_allowed():
    assert DEMAND.window_of(PATH) == 10_000
    assert replace(DEMAND, rate=1e6).window_of(PATH) == 125_000
    assert replace(DEMAND, period=0.0).window_of(PATH) == pytest.approx(10_000 * BATCH / 2, rel=0.1)


def told(messages: int, batches: int) -> str:
    """The metrics of a job that took 5, 4 and 3 µs a message to read, parse and write."""
    lines = ["millrace_build_info 1.0", f'millrace_messages_total{{topic="sales"}} {messages}']
    lines.append(f'millrace_batches_total{{outcome="committed"}} {batches}')
    for phase, each in (("read", 5e-6), ("parse", 4e-6), ("write", 3e-6), ("commit", 9.0)):
        lines.append(f'millrace_phase_seconds_total{{phase="{phase}"}} {each * messages!r}')
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("messages", "batches", "measured"),
    [(1_000_000, 4, {"read", "parse", "write"}), (1_000_000, 500, {"parse", "write"}), (1_000, 1, set())],
)
def test_a_running_job_tells_what_the_way_costs_where_it_has_seen_enough(messages, batches, measured, monkeypatch):
    monkeypatch.setattr("pipeline.advise.demand.scrape", lambda url, access: Scrape.parse(told(messages, batches), 0.0))
    way = Way.of_job("http://127.0.0.1:1/metrics")
    assert way.measured == measured
    expected = {"read": 5e-6, "parse": 4e-6, "write": 3e-6}
    for step in expected:
        assert getattr(way, step) == pytest.approx(expected[step] if step in measured else getattr(Way(), step))


def test_without_a_job_the_way_is_guessed():
    assert Way.of_job("http://127.0.0.1:1/metrics") == Way()
