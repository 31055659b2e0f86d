"""The harness of the papers' experiments: what it charges, what it tells of queues, and the same each time."""

from itertools import islice

import numpy as np
import pytest

from pipeline.bench.charged.machines import ACCOUNTINGS, MACHINES, Machine, processor
from pipeline.bench.charged.trial import Trial
from pipeline.bench.workload.stream import Sales, bursty, even
from pipeline.generate.zipf import ZipfDraw
from pipeline.joins import JOINS
from pipeline.joins.inlj import Settings as OfINLJ
from pipeline.joins.meshjoin import Settings as OfMeshJoin
from pipeline.joins.published import meshjoin as published
from pipeline.joins.xhybridjoin import Settings as OfXHybridJoin
from pipeline.master.computed import ComputedRows
from pipeline.master.disks import Disk

OF_2011 = MACHINES["hybridjoin-2011"]
OF_2013 = ACCOUNTINGS["x-hybridjoin-kais2013"]
ONE_BY_ONE = {"inlj": OfINLJ(batch=1)}
SLOW = Machine(Disk(request=1.0, seek=1.0, byte=0.0), processor(c_S=1e-3, c_A=2e-3, c_E=3e-3, c_H=1e-4, c_O=4e-3))


def test_a_look_up_a_sale_costs_what_the_equation_says():
    trial = Trial("inlj", ComputedRows(1_000), 100_000, SLOW, absent=0.5, settings=ONE_BY_ONE)
    trial.warm_up()
    seen = trial.measure(sales=400)
    assert seen.reads.by_kind["lookup"].queries == seen.disk.requests == 400
    found = seen.matched
    assert 150 < found < 250
    assert seen.seconds == pytest.approx(400 * (1.0 + 1e-3 + 2e-3 + 3e-3 + 4e-3) + found * 1e-4)
    assert seen.rate == 400 / seen.seconds


def test_an_iteration_of_meshjoin_costs_what_equation_2_says():
    settings = {"meshjoin": OfMeshJoin(b=100)}
    trial = Trial("meshjoin", ComputedRows(1_000), 200_000, SLOW, skew=0.0, settings=settings)
    trial.warm_up(cycles=3)
    for _ in range(3):
        seen = trial.measure(sales=1)
        assert (seen.disk.requests, seen.reads.by_kind["scan"].rows) == (10, 1_000)  # a cycle
        expected = 10 * 1.0 + seen.admitted * (1e-3 + 2e-3 + 3e-3) + 1_000 * 1e-4 + seen.sales * 4e-3
        assert seen.seconds == pytest.approx(expected)
        assert seen.sales == pytest.approx(seen.admitted, rel=0.02)


@pytest.mark.parametrize("paper", MACHINES)
def test_meshjoin_serves_as_many_sales_as_its_model_says(paper):
    for rows in (ComputedRows(50_000), ComputedRows(50_000, scattered=True)):
        trial = Trial("meshjoin", rows, 1_000_000, MACHINES[paper], skew=0.5)
        trial.warm_up(cycles=2)
        assert trial.measure(sales=30_000).rate == pytest.approx(trial.prediction.mu, rel=0.02)


@pytest.mark.parametrize(("memory", "best"), [(20e6, 0.93e6), (40e6, 1.35e6), (80e6, 1.91e6), (160e6, 2.63e6)])
def test_the_machine_of_2010_gives_its_equations_the_buffers_of_2010(memory, best):
    costs = MACHINES["meshjoin-default-vs-optimal-2010"].as_published()
    pages = published.fastest(memory, published.DEF2010, costs)
    assert pages * published.DEF2010.v_P == pytest.approx(best, rel=0.02)


@pytest.mark.parametrize(("memory", "rate"), [(4e6, 6_000), (20e6, 19_500), (40e6, 26_000)])
def test_the_machine_of_2007_gives_its_equations_the_rates_of_2007(memory, rate):
    costs = MACHINES["meshjoin-icde2007"].as_published()
    pages = published.fastest(memory, published.ICDE2007, costs)
    assert published.mu_within(memory, pages, published.ICDE2007, costs) == pytest.approx(rate, rel=0.02)


def test_inlj_is_as_slow_as_the_paper_of_meshjoin_has_it():
    # Section 4.2: 3.5 M rows, 2 MB of memory as buffer pool, z_S = 0.5: "INL can sustain 274 tuples/second".
    trial = Trial(
        "inlj", ComputedRows(3_500_000), 50_000, MACHINES["meshjoin-icde2007"], skew=0.5, pool_bytes=2_000_000,
        settings=ONE_BY_ONE,
    )  # fmt: skip
    trial.warm_up(sales=1_000)
    assert trial.master.pool_pages == trial.master.pool_capacity
    seen = trial.measure(sales=1_000)
    assert seen.rate == pytest.approx(274, rel=0.03)
    assert 0 < seen.disk.pool_hits < 50


def test_the_past_of_a_join_that_keeps_nothing_is_in_the_page_pool_and_took_no_time():
    given = {"pool_bytes": 1_000_000, "settings": ONE_BY_ONE}
    rows = ComputedRows(50_000, scattered=True)
    told, lived = Trial("inlj", rows, 50_000, OF_2011, **given), Trial("inlj", rows, 50_000, OF_2011, **given)
    told.warm_up(sales=20_000)
    assert told.master.pool_pages == told.master.pool_capacity
    assert told.served < 2_000
    lived.measure(sales=20_000)
    assert told.measure(sales=5_000).rate == pytest.approx(lived.measure(sales=5_000).rate, rel=0.03)


@pytest.mark.parametrize("memory", [300_000, 1_000_000])
def test_what_is_measured_of_look_ups_in_batches_is_what_they_serve_for_ever(memory):
    """With the oldest leave all that want the same: the first query serves many, and the last of a filling few."""
    trial = Trial("inlj", ComputedRows(50_000, scattered=True), memory, OF_2011)
    trial.warm_up()
    first = trial.measure(sales=1).rate
    trial.warm_up(sales=20 * trial.join.pending)
    assert first == pytest.approx(trial.measure(sales=20 * trial.join.pending).rate, rel=0.1)


@pytest.mark.parametrize("scattered", [False, True])
def test_where_keys_repeat_every_result_is_charged(scattered):
    rows = ComputedRows(2_000, 120, ZipfDraw(500, 0.8), scattered)
    trial = Trial("meshjoin", rows, 300_000, SLOW, skew=0.5, settings={"meshjoin": OfMeshJoin(b=400)})
    trial.warm_up(cycles=2)
    seen = trial.measure(sales=1)
    results = seen.matched + seen.unmatched
    assert seen.matched > 4 * seen.sales
    read = seen.reads.by_kind["scan"].rows
    assert seen.seconds == pytest.approx(seen.disk.seconds + seen.admitted * 6e-3 + read * 1e-4 + results * 4e-3)


ARRIVALS = {"even": lambda: even(800.0), "bursty": lambda: bursty(600.0, streams=8, seed=4)}


@pytest.mark.parametrize("arrivals", ARRIVALS.values(), ids=ARRIVALS.keys())
@pytest.mark.parametrize(("name", "seconds"), [("inlj", 15), ("meshjoin", 60), ("r-meshjoin", 12), ("hybridjoin", 8)])
def test_littles_law_holds_of_both_queues(name, seconds, arrivals):
    trial = Trial(name, ComputedRows(5_000), 150_000, OF_2011)
    seen = trial.run(arrivals(), seconds=seconds, warm_up=2)
    assert seen.arrived == pytest.approx(seen.served, rel=0.05)  # nobody is left behind
    assert seen.waiting.min() >= 0
    assert seen.processing.min() > 0
    assert seen.mean_queued == pytest.approx(seen.admitted / seen.seconds * seen.waiting.mean(), rel=0.02)
    assert seen.mean_pending == pytest.approx(seen.served / seen.seconds * seen.processing.mean(), rel=0.02)


def test_a_sale_that_finds_the_join_idle_waits_for_nobody():
    trial = Trial("inlj", ComputedRows(100), 100_000, SLOW, settings=ONE_BY_ONE)
    seen = trial.run(even(0.5), seconds=100)
    assert seen.waiting == pytest.approx(np.zeros(len(seen.waiting)))
    assert seen.processing == pytest.approx(np.full(len(seen.processing), 1.0 + 6e-3 + 1e-4 + 4e-3))
    assert seen.admitted in (49, 50)


def test_the_backlog_of_a_join_that_is_too_slow_grows_by_what_it_cannot_serve():
    trial = Trial("inlj", ComputedRows(100), 100_000, SLOW, settings=ONE_BY_ONE)
    seen = trial.run(even(20.0), seconds=400, warm_up=100)
    grown = seen.queued[-1] + seen.pending[-1] - seen.queued[0] - seen.pending[0]
    assert grown == seen.arrived - seen.served
    assert seen.served / seen.seconds == pytest.approx(1 / 1.0101, rel=0.01)
    assert seen.pending[-1] == seen.pending.max()  # full
    assert seen.queued[-1] > 5_000
    assert seen.waiting[-1] > 60


@pytest.mark.parametrize("as_published", [False, True])
def test_meshjoin_waits_for_as_many_sales_as_it_reads_at_once(as_published):
    settings = {"meshjoin": OfMeshJoin(b=500, published=as_published)}
    trial = Trial("meshjoin", ComputedRows(1_000), 300_000, OF_2011, settings=settings)
    w = trial.join.algorithm.split.w
    seen = trial.run(even(100.0), seconds=3 * w / 100)
    assert trial.master.disk_use.requests == 2
    assert 3 * w - 1 <= seen.admitted <= 3 * w


@pytest.mark.parametrize("name", JOINS)
def test_every_join_runs_and_tells_the_same_twice(name):
    def both() -> tuple:
        trial = Trial(name, ComputedRows(5_000, scattered=True), 300_000, OF_2011, absent=0.02, seed=3)
        trial.warm_up(sales_a_cached_row=1)
        full = trial.measure(sales=1_000)
        seen = Trial(name, ComputedRows(5_000), 300_000, OF_2011, seed=3).run(bursty(900.0), seconds=2, warm_up=1)
        queues = (seen.waiting.tolist(), seen.processing.tolist(), seen.queued.tolist(), seen.pending.tolist())
        return full.rate, full.hits, full.disk, full.processing.tolist(), queues

    first, again = both(), both()
    assert first == again
    assert first[0] > 0
    assert sum(len(queue) for queue in first[-1])


@pytest.mark.parametrize("name", ["hybridjoin", "x-hybridjoin", "inlj", "cmeshjoin"])
def test_as_many_sales_come_in_as_go_out_while_it_is_measured(name):
    """On a sorted R one read of HYBRIDJOIN empties most of its queue, and the next ones hardly anything."""
    own = {name: JOINS[name].main.Settings(published=True)} if "hybridjoin" in name else {}
    trial = Trial(name, ComputedRows(20_000), 1_000_000, MACHINES["x-hybridjoin-kais2013"], settings=own)
    trial.warm_up()
    seen = trial.measure(20_000)
    assert seen.admitted == pytest.approx(seen.sales, rel=0.002)


def test_a_step_that_only_finds_the_end_of_the_table_is_no_standstill():
    trial = Trial("auto", ComputedRows(40_000, scattered=True), 40_000, MACHINES["meshjoin-icde2007"], skew=0.5)
    trial.warm_up(cycles=2, sales_a_cached_row=1)
    assert trial.join.statistics.by_scan
    assert trial.measure(sales=1_000).sales >= 1_000


def test_sales_are_the_same_however_they_are_cut_and_fall_as_their_law_says():
    def drawn(pieces: list[int], seed: int = 1) -> list[int]:
        sales, keys = Sales(ComputedRows(1_000, scattered=True), ZipfDraw(1_000, 1.0), 0.1, seed), []
        for piece in pieces:
            while piece:
                some = sales.next(piece)
                sales.taken(len(some))
                keys, piece = keys + some.to_pylist(), piece - len(some)
        return keys

    assert drawn([40_000]) == drawn([1, 20_000, 19_999])
    assert drawn([100]) != drawn([100], seed=2)
    keys = np.array(drawn([40_000]))
    assert (keys % 2).mean() == pytest.approx(0.1, abs=0.01)
    most_wanted = ComputedRows(1_000, scattered=True).keys_of(np.arange(10))
    assert np.isin(keys, most_wanted).mean() == pytest.approx(0.9 * ZipfDraw(1_000, 1.0).share_of_first(10), abs=0.01)


def test_arrivals_ascend_and_have_their_rate():
    for arrivals, rate, blocks in ((even(700.0), 700.0, 3), (bursty(700.0, streams=5), 700.0, 6_000)):
        moments = np.concatenate(list(islice(arrivals, blocks)))
        assert (np.diff(moments) > 0).all()
        assert len(moments) / moments[-1] == pytest.approx(rate, rel=0.1)


def test_a_run_must_be_longer_than_its_warm_up():
    with pytest.raises(ValueError, match="some must be left"):
        Trial("inlj", ComputedRows(100), 100_000, OF_2011).run(even(1.0), seconds=5, warm_up=5)


def test_a_join_is_warm_when_sales_have_come_for_each_row_that_it_has_room_for():
    settings = {"x-hybridjoin": OfXHybridJoin(next="best", buffers=2)}
    machine, rows = MACHINES["x-hybridjoin-kais2013"], ComputedRows(20_000, scattered=False)
    trial = Trial("x-hybridjoin", rows, 2_500_000, machine, settings=settings, accounting=OF_2013)
    room = trial.prediction.parameters["l"] * trial.prediction.parameters["k"]
    assert room >= rows.rows
    trial.warm_up(sales_a_cached_row=20)
    assert trial.served >= 20 * room
    seen = trial.measure(sales=100_000)
    assert not seen.disk.requests
    assert seen.rate == pytest.approx(trial.prediction.mu, rel=0.15)


def test_the_first_part_s_sales_leave_a_short_queue_as_foreseen():
    """Figure 4's corner of X-HYBRIDJOIN's paper, a hundredth as large: few sales wait, and pages are large."""
    settings = {"x-hybridjoin": OfXHybridJoin(published=True, d=1_600, d_N=2_000)}
    machine, rows = MACHINES["x-hybridjoin-kais2013"], ComputedRows(20_000, scattered=False)
    trial = Trial("x-hybridjoin", rows, 500_000, machine, settings=settings, accounting=OF_2013)
    trial.warm_up()
    assert trial.measure(sales=300_000).rate == pytest.approx(trial.prediction.mu, rel=0.15)
