"""HYBRIDJOIN and X-HYBRIDJOIN when the best page is read next, and when the next one is on its way."""

from __future__ import annotations

from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

from pipeline.bench.charged.machines import MACHINES, Machine, processor
from pipeline.bench.charged.trial import Trial
from pipeline.errors import BadSetting
from pipeline.joins import Join, Options, hybridjoin, make, xhybridjoin
from pipeline.joins.cost.question import Stream
from pipeline.joins.parts.wantedpages import PATIENCE
from pipeline.master.computed import ComputedRows
from pipeline.master.disks import Disk
from pipeline.master.memory import MemoryMaster
from tests.joins.changing import right_answers, while_it_changes
from tests.joins.harness import answer, drive, named_least, oracle
from tests.joins.test_memory import MEMORY, OVERHEAD, SALES, most_memory
from tests.joins.workloads import Workload, master_table, thousands, workloads

SETTINGS = {"hybridjoin": hybridjoin.Settings, "x-hybridjoin": xhybridjoin.Settings}
WAYS = [(name, *way) for name, way in product(SETTINGS, [("best", 1), ("oldest", 2), ("best", 2)])]
every_way = pytest.mark.parametrize(("name", "next", "buffers"), WAYS)
SLOW = Machine(Disk(request=1.0, seek=1.0, byte=0.0), processor(c_S=1e-3, c_A=2e-3, c_E=3e-3, c_H=1e-4, c_O=4e-3))


def options(name: str, *, batch: int = 125_000, **of_the_join: object) -> Options:
    return Options(settings={name: SETTINGS[name](**of_the_join)}, stream=Stream(batch=batch))


@every_way
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(workload=workloads())
def test_every_sale_is_served_exactly_as_sql_says(name, next, buffers, workload: Workload):
    master, of = MemoryMaster(workload.master), options(name, next=next, buffers=buffers)
    least = named_least(lambda: make(name, master, 1, of))
    join = make(name, master, least + workload.spare, of)
    assert answer(drive(join, workload.keys, workload.cuts)) == oracle(workload.keys, workload.master)


@every_way
@pytest.mark.parametrize("memory", [20_000, 60_000])
def test_a_table_that_grows_and_shrinks_in_mid_run_is_joined_on(name, next, buffers, memory):
    keys, grown = thousands(rows=1_500, sales=1_000, skew=0.3)
    master = MemoryMaster(grown.table.slice(0, 150))
    join = make(name, master, memory, options(name, next=next, buffers=buffers))
    for table in (grown.table, grown.table.take(pa.array(np.arange(0, 1_500, 9))), grown.table):
        drive(join, keys.slice(0, 200))
        master.replace(table)
        assert answer(drive(join, keys, cuts=[300])) == oracle(keys, table)


@pytest.fixture(scope="module")
def far_too_many():
    return thousands(rows=100_000, sales=SALES, skew=0.3)


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize(("next", "buffers"), [("best", 2)])
def test_the_budget_holds(name, next, buffers, far_too_many, arrow_memory):
    keys, master = far_too_many
    join = make(name, master, MEMORY, options(name, next=next, buffers=buffers))
    served, peak, parts = most_memory(join, keys, arrow_memory)
    assert served == SALES
    assert peak <= MEMORY + OVERHEAD, parts


@pytest.mark.parametrize(("scattered", "skew", "gain"), [(False, 1.0, 2.5), (True, 1.0, 1.15), (True, 0.0, 0.98)])
def test_the_best_page_serves_more_sales_a_read_the_more_pages_differ(scattered, skew, gain):
    def served_a_read(next: str) -> float:
        rows = ComputedRows(100_000, scattered=scattered)
        of = {"hybridjoin": hybridjoin.Settings(d=400, next=next)}
        trial = Trial("hybridjoin", rows, 1_000_000, SLOW, skew, settings=of)
        trial.warm_up(sales=12 * trial.join.algorithm.split.h_S)
        seen = trial.measure(sales=12 * trial.join.algorithm.split.h_S)
        return seen.sales / seen.reads.by_kind["page"].queries

    assert served_a_read("best") > gain * served_a_read("oldest")


@every_way
@pytest.mark.parametrize("scattered", [False, True])
@pytest.mark.parametrize(("memory", "skew"), [(500_000, 0.5), (3_000_000, 1.0)])
def test_the_model_foresees_the_rate_within_15_percent(name, next, buffers, scattered, memory, skew):
    of = {name: SETTINGS[name](next=next, buffers=buffers)}
    rows = ComputedRows(40_000, scattered=scattered)
    trial = Trial(name, rows, memory, MACHINES["hybridjoin-2011"], skew, settings=of)
    h_S = trial.join.algorithm.split.h_S
    trial.warm_up(sales=6 * h_S)
    assert trial.prediction.mu == pytest.approx(trial.measure(sales=4 * h_S).rate, rel=0.15)


def hot_and_cold(join: Join, rows: int) -> int:
    """One sale for the last page of R, and others without end for three pages: how many come before it leaves."""
    h_S = join.algorithm.split.h_S
    came = join.offer(np.arange(1), pa.array([rows - 1]))
    while came < 40 * h_S:
        while taken := join.offer(np.arange(came, came + h_S), pa.array(np.arange(h_S) % 3 * 50)):
            came += taken
        join.check()
        if any(0 in piece.sales for piece in join.step()):
            return came - 1
    raise AssertionError("it starves")


@pytest.mark.parametrize("buffers", [1, 2])
def test_no_sale_starves_though_others_are_always_better_to_read_for(buffers):
    master = MemoryMaster(master_table(list(range(2_000)), "integers"))
    join = make("hybridjoin", master, 60_000, options("hybridjoin", d=50, next="best", buffers=buffers))
    h_S = join.algorithm.split.h_S
    behind = hot_and_cold(join, 2_000)
    assert (PATIENCE - 1) * h_S < behind <= (PATIENCE + buffers + 1) * h_S


def test_when_nothing_more_comes_every_read_serves_somebody():
    keys, master = thousands(rows=2_000, sales=600, skew=1.0, absent=0.2)
    join = make("hybridjoin", master, 60_000, options("hybridjoin", d=20, next="best", buffers=2))
    taken, reads = join.offer(np.arange(600), keys), 0
    while join.pending:
        assert reads <= taken
        join.step(drain=True)
        reads += 1
    pages = {int(key) // 2 // 20 for key in keys.slice(0, taken).to_pylist()}
    assert master.reads.by_kind["page"].queries <= len(pages)


def test_with_two_buffers_the_disk_reads_on_while_the_processor_works():
    """The same reads of the same pages, and of disk and processor only the slower one is waited for."""

    def seen(buffers: int, machine: Machine):
        of = {"hybridjoin": hybridjoin.Settings(d=100, buffers=buffers)}
        trial = Trial("hybridjoin", ComputedRows(2_000), 200_000, machine, skew=0.0, settings=of)
        h_S[buffers - 1] = trial.join.algorithm.split.h_S
        trial.warm_up(sales=5_000)
        return trial.measure(sales=10_000)

    h_S = [0, 0]
    machine = Machine(Disk(request=2.0, seek=2.0, byte=0.0), SLOW.processor)
    one = seen(1, machine)
    disk = one.disk.seconds
    processor = one.seconds - disk
    assert 0.3 < processor / disk < 0.9
    two = seen(2, machine)
    w = [each.sales / each.disk.requests for each in (one, two)]
    assert two.seconds / two.sales == pytest.approx(2.0 / w[1], rel=0.02)
    assert w[1] == pytest.approx(w[0] * h_S[1] / h_S[0], rel=0.05)
    fast = Machine(Disk(request=0.1, seek=0.1, byte=0.0), SLOW.processor)
    assert seen(2, fast).seconds == pytest.approx(seen(1, fast).seconds - seen(1, fast).disk.seconds, rel=0.03)


@every_way
def test_where_nothing_may_be_stale_an_answer_is_right_for_a_moment_while_the_sale_was_in_the_join(name, next, buffers):
    keys, master = thousands(rows=300, sales=300, skew=0.8)
    rows, random = master.table, np.random.default_rng(4)
    changing = np.arange(len(rows)) % 3 == 0
    versions = [rows.filter(pa.array(~changing | (random.random(len(rows)) < 0.5))) for _ in range(40)]
    between = right_answers(keys, versions)
    of = Options(settings=options(name, next=next, buffers=buffers).settings, max_staleness=0, absent_staleness=0)
    served = while_it_changes(make(name, master, 40_000, of), keys, master, versions, every=1)
    for admitted, left, found in served:
        assert found <= between(admitted, left), (admitted, left, found)


def test_a_page_that_has_been_on_its_way_for_too_long_is_asked_for_again():
    class Clock:
        now = 0.0

        def __call__(self) -> float:
            return self.now

    clock, master = Clock(), MemoryMaster(master_table(list(range(400)), "integers"))
    of = Options(settings=options("hybridjoin", d=10, buffers=2).settings, clock=clock, max_staleness=5.0)
    join = make("hybridjoin", master, 60_000, of)
    join.offer(np.arange(3), pa.array([0, 100, 200]))
    join.step()  # the page of 100 is on its way
    changed = master_table(list(range(400)), "integers")
    changed = changed.set_column(1, "surrogate_key", pa.array(range(7, 407), pa.int64()))
    master.replace(changed)
    clock.now = 5.1
    [served] = join.step()
    assert served.rows["surrogate_key"].to_pylist() == [107]
    assert master.reads.by_kind["page"].queries == 4  # 0, 100, 100 again, 200


@pytest.mark.parametrize(
    ("given", "needed"),
    [
        ({"next": "newest"}, "next = 'newest' must be one of: 'oldest', 'best'"),
        ({"buffers": 3}, "buffers = 3 must be one of: 1, 2"),
        ({"published": True, "next": "best"}, "published = true needs next = 'oldest' and buffers = 1"),
        ({"published": True, "buffers": 2}, "published = true needs next = 'oldest' and buffers = 1"),
    ],
)
def test_what_is_not_known_is_refused(given, needed):
    for kind in SETTINGS.values():
        with pytest.raises(BadSetting, match=needed):
            kind(**given)
