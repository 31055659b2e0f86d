"""X-HYBRIDJOIN keeps the pages that are wanted, lets go of those that are not, and serves nothing too old."""

import numpy as np
import pyarrow as pa
import pytest

from pipeline import joins
from pipeline.joins import Join, Options
from pipeline.joins.cost import hybridjoin as cost
from pipeline.joins.cost.question import Stream
from pipeline.master.memory import MemoryMaster
from tests.joins.harness import Variant, answer, drive, oracle, smallest_memory
from tests.joins.test_hybridjoin import with_full_queue
from tests.joins.workloads import master_table, thousands

ROWS = 4_000


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def master() -> MemoryMaster:
    return MemoryMaster(master_table(list(range(ROWS)), "integers"))


def make(master: MemoryMaster, memory: int = 120_000, **options) -> Join:
    return joins.make("x-hybridjoin", master, memory, Options(**options))


def within(first: int, last: int, sales: int, seed: int = 0) -> pa.Array:
    """Sales that want the rows of one stretch of R, ten times as often as all others."""
    random = np.random.default_rng(seed)
    hot = random.integers(first, last, sales)
    return pa.array(np.where(random.random(sales) < 10 / 11, hot, random.integers(0, ROWS, sales)))


def pages_from(join: Join, page: int) -> tuple[int, int]:
    """The keys of as many pages as may stay in memory."""
    return page * join.algorithm.split.d, (page + join.algorithm.split.l) * join.algorithm.split.d


def share_of_hits(join: Join, keys: pa.Array) -> float:
    before = join.statistics.hits
    drive(join, keys)
    return (join.statistics.hits - before) / len(keys)


def test_the_pages_wanted_most_are_kept_and_serve_without_a_read(master):
    join = make(master)
    first, last = pages_from(join, 3)
    share_of_hits(join, within(first, last, 3_000))
    assert 0 < join.cached_rows <= join.algorithm.split.l * join.algorithm.split.d
    reads = master.reads.by_kind["page"].queries
    keys = within(first, last, 2_000, seed=1)
    assert share_of_hits(join, keys) > 0.85
    misses = 0.15 * len(keys)
    assert master.reads.by_kind["page"].queries - reads < misses


def test_the_resident_part_follows_the_stream_when_other_rows_are_wanted(master):
    join = make(master)
    first, last = pages_from(join, 3)
    drive(join, within(first, last, 5_000))
    assert share_of_hits(join, within(first, last, 1_000, seed=1)) > 0.85
    first, last = pages_from(join, 20)
    assert share_of_hits(join, within(first, last, 500, seed=2)) < 0.6
    drive(join, within(first, last, 20_000, seed=3), cuts=range(0, 20_000, 1_000))
    assert share_of_hits(join, within(first, last, 1_000, seed=4)) > 0.85
    assert join.statistics.evicted > 0


def test_pages_wanted_alike_do_not_drive_each_other_out(master):
    random = np.random.default_rng(1)
    join = make(master)
    drive(join, pa.array(random.integers(0, ROWS, 10_000)))
    evicted = join.statistics.evicted
    drive(join, pa.array(random.integers(0, ROWS, 10_000)))
    assert join.statistics.evicted - evicted < 2 * join.algorithm.split.l * join.algorithm.split.d


def test_no_row_is_served_older_than_it_may_be(master):
    clock = Clock()
    join = make(master, max_staleness=60.0, clock=clock)
    keys = within(0, 50, 2_000)
    drive(join, keys)
    assert join.cached_rows
    old = master.table
    changed = master_table(list(range(ROWS)), "integers")
    changed = changed.set_column(1, "surrogate_key", pa.array(range(7, ROWS + 7), pa.int64()))
    master.replace(changed)
    clock.now += 30
    assert answer(drive(join, keys)) != oracle(keys, changed)
    clock.now += 31
    hits = join.statistics.hits
    served = answer(drive(join, keys))
    assert served == oracle(keys, changed) != oracle(keys, old)
    # They are kept anew, and serve.
    drive(join, keys)
    assert join.statistics.hits > hits


def test_nothing_is_kept_when_nothing_may_be_stale(master):
    join = make(master, max_staleness=0.0)
    keys = within(0, 50, 2_000)
    assert share_of_hits(join, keys) == share_of_hits(join, keys) == 0.0


def test_without_room_for_a_page_it_works_as_hybridjoin(master):
    least = smallest_memory(Variant("x-hybridjoin"), master)
    assert least == smallest_memory(Variant("hybridjoin"), master)
    join = make(master, least)
    keys = within(0, 50, 200)
    assert answer(drive(join, keys)) == oracle(keys, master.table)
    assert (join.algorithm.split.l, join.cached_rows, join.statistics.hits) == (0, 0, 0)


def test_a_row_that_appears_on_a_page_that_is_kept_is_served(master):
    master.replace(master.table.take(pa.array([row for row in range(ROWS) if row != 17])))
    join = make(master)
    drive(join, within(0, 50, 2_000))
    assert share_of_hits(join, pa.array([16, 18])) == 1.0
    master.replace(master_table(list(range(ROWS)), "integers"))
    keys = pa.array([16, 17, 18])
    assert answer(drive(join, keys)) == oracle(keys, master.table)


def test_an_absent_key_of_a_page_that_is_kept_costs_no_read_of_it(master):
    master.replace(master.table.take(pa.array([row for row in range(ROWS) if row != 17])))
    join = make(master)
    drive(join, within(0, 50, 2_000))
    reads = master.reads.by_kind["page"].queries
    assert sum(surrogate is None for _, surrogate, *_ in answer(drive(join, pa.array([17] * 5)))) == 5
    assert master.reads.by_kind["page"].queries == reads
    assert master.reads.by_kind["lookup"].queries == 1


def test_the_resident_part_starts_anew_when_the_directory_is_read_again(master):
    join = make(MemoryMaster(master.table.slice(0, 200)))
    keys = within(0, ROWS, 1_000)
    drive(join, pa.array(np.arange(200)))
    join.master.replace(master.table)
    for start in range(0, 1_000, 250):
        drive(join, keys.slice(start, 250))
    assert answer(drive(join, keys)) == oracle(keys, master.table)


@pytest.mark.parametrize("skew", [0.0, 0.5, 1.0])
def test_the_model_knows_hits_and_reads_of_a_warm_join(skew):
    windows, batch = 20, 2_000
    keys, plain = thousands(ROWS, 2 * windows * batch, skew, absent=0.0)
    join = make(plain, 150_000)
    for window in range(2 * windows):
        if window == windows:
            reads, hits = plain.reads.by_kind["page"].queries, join.statistics.hits
        with_full_queue(join, keys.slice(window * batch, batch))
    predicted = cost.load(join.algorithm.split, join.relation, Stream(e=skew, batch=batch))
    assert predicted.hits * windows == pytest.approx(join.statistics.hits - hits, rel=0.15, abs=300)
    assert predicted.reads * windows == pytest.approx(plain.reads.by_kind["page"].queries - reads, rel=0.1)


@pytest.mark.parametrize("memory", [1_000_000, 2_000_000])
def test_where_all_of_r_fits_it_comes_in_with_few_reads(master, memory):
    # With all of R in memory every page size serves alike: small pages took a thousand reads to get there.
    join = make(master, memory, stream=Stream(e=0.0, batch=1 << 40))
    everything = pa.array(np.random.default_rng(0).permutation(ROWS))
    for _ in range(4):
        drive(join, everything)
    reads = master.reads.by_kind["page"].queries
    drive(join, everything)
    assert join.statistics.hits >= ROWS
    assert master.reads.by_kind["page"].queries == reads <= 60
