"""As published: what each paper's own algorithm does otherwise, and that the answers stay the same."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from pipeline.errors import BadSetting, BudgetTooSmall
from pipeline.joins import Join, Options, frontstage, hybridjoin, make, meshjoin, rmeshjoin, xhybridjoin
from pipeline.joins.algorithm import Served
from pipeline.joins.cost.question import Stream
from pipeline.joins.cost.zipf import Zipf
from pipeline.master.memory import MemoryMaster
from tests.joins.harness import answer, oracle
from tests.joins.workloads import master_table, thousands

AS_PUBLISHED = {
    "meshjoin": meshjoin.Settings(published=True),
    "r-meshjoin": rmeshjoin.Settings(published=True),
    "hybridjoin": hybridjoin.Settings(published=True),
    "x-hybridjoin": xhybridjoin.Settings(published=True),
    "cmeshjoin": frontstage.Settings(published=True),
}
ROWS, SALES = 20_000, 40_000


def published(name: str, master: MemoryMaster, memory: int, **more: object) -> Join:
    settings = {name: xhybridjoin.Settings(published=True, **more)} if more else AS_PUBLISHED
    return make(name, master, memory, Options(settings=settings, stream=Stream(e=1.0, batch=SALES)))


def one_batch(join: Join, keys: pa.Array, first: int = 0) -> list[Served]:
    """As one batch. As published a sale that has come out may still be pending, which `drive` takes for wrong."""
    served: list[Served] = []
    offered = 0
    while offered < len(keys) or join.pending:
        while offered < len(keys) and (taken := join.offer(first + np.arange(offered, len(keys)), keys.slice(offered))):
            offered += taken
        served += join.step(drain=offered == len(keys))
        join.check()
    return served


@pytest.mark.parametrize("name", AS_PUBLISHED)
@pytest.mark.parametrize("memory", [40_000, 1 << 20])
def test_the_answers_are_those_of_sql(name, memory):
    keys, master = thousands(rows=1_000, sales=3_000, skew=0.8)
    join = published(name, master, memory)
    served: list[Served] = []
    for first, last in ((0, 1), (1, 900), (900, len(keys))):
        served += one_batch(join, keys.slice(first, last - first), first)
    assert answer(served) == oracle(keys, master.table)


@pytest.mark.parametrize("name", ["meshjoin", "r-meshjoin"])
def test_a_sale_that_has_met_its_row_stays_until_its_cycle_ends(name):
    master = MemoryMaster(master_table([2 * row for row in range(1_000)], "integers"))
    for join, waits in ((published(name, master, 30_000), True), (make(name, master, 30_000), False)):
        split = join.algorithm.split
        join.offer(np.arange(1), pa.array([0]))
        read = master.reads.by_kind["scan"].queries
        while join.pending:
            join.step(drain=True)
        assert master.reads.by_kind["scan"].queries - read == (split.k if waits else 1)


def test_as_figure_4_has_it_w_sales_are_copied_from_a_stream_buffer_and_leave_when_the_queue_is_full():
    master = MemoryMaster(master_table([2 * row for row in range(1_000)], "integers"))
    settings = {"meshjoin": meshjoin.Settings(b=400, w=2, published=True)}
    join = make("meshjoin", master, 100_000, Options(settings=settings))
    algorithm, split = join.algorithm, join.algorithm.split
    assert (split.k, split.slots, split.h_S) == (3, 3, 6)
    absent: list[list[int]] = []
    for iteration in range(5):
        sale = 2 * iteration
        assert join.offer(np.array([sale]), pa.array([1])) == 1
        assert join.step() == []  # it waits for w
        assert join.offer(np.array([sale + 1, sale + 2]), pa.array([1, 1])) == 1  # and has room for no more
        in_h = len(algorithm._waiting)
        absent += [piece.sales.tolist() for piece in join.step()]
        assert in_h == min(iteration, 3) * 2
    assert absent == [
        [0, 1],
        [2, 3],
    ]  # each in the iteration behind its cycle


def by_frequency(sales: int) -> tuple[pa.Array, MemoryMaster]:
    """R sorted by how much its rows are wanted, as x-hybridjoin-kais2013 has it, and sales by Zipf's law."""
    weights = 1.0 / np.arange(1, ROWS + 1)
    ranks = np.random.default_rng(2).choice(ROWS, sales, p=weights / weights.sum())
    return pa.array(ranks), MemoryMaster(master_table(list(range(ROWS)), "integers"))


def serve(join: Join, keys: pa.Array) -> tuple[float, float]:
    """The share of hits, and sales served for each page that is read."""
    hits, pages = join.statistics.hits, join.master.reads.by_kind["page"].queries
    offered = 0
    while offered < len(keys) or join.pending:
        while offered < len(keys) and (taken := join.offer(np.arange(offered, len(keys)), keys.slice(offered))):
            offered += taken
        join.step(drain=offered == len(keys))
    reads = join.master.reads.by_kind["page"].queries - pages
    return (join.statistics.hits - hits) / len(keys), len(keys) / max(1, reads)


def test_the_first_partition_of_a_sorted_table_serves_its_share_of_the_sales():
    """The non-swappable part has the rows that are wanted most, all of the time and from the start."""
    keys, master = by_frequency(SALES)
    join = published("x-hybridjoin", master, 400_000, d=100, l=1)
    hits, sales_a_read = serve(join, keys)
    assert hits == pytest.approx(Zipf(ROWS, 1.0).share(100), abs=0.01)
    as_large = Options(settings={"hybridjoin": hybridjoin.Settings(d=100)})
    _, without = serve(make("hybridjoin", MemoryMaster(master.table), 400_000, as_large), keys)
    assert sales_a_read > 1.3 * without


def test_the_first_partition_of_a_scattered_table_serves_next_to_nothing():
    keys, master = by_frequency(SALES)
    scattered = np.random.default_rng(0).permutation(ROWS)
    hits, _ = serve(published("x-hybridjoin", master, 400_000, d=100, l=1), pa.array(scattered[keys.to_numpy()]))
    assert hits < 0.1


def staged(memory: int = 1 << 20, **settings: object) -> tuple[Join, pa.Array]:
    keys, master = thousands(rows=5_000, sales=SALES, skew=1.0, absent=0.0)
    stream = Stream(e=1.0, batch=SALES)
    options = Options(settings={"cmeshjoin": frontstage.Settings(**settings)}, stream=stream)
    return make("cmeshjoin", master, memory, options), keys


def test_the_join_behind_a_published_front_stage_is_as_published_too():
    for published_too in (True, False):
        join, _ = staged(published=published_too)
        assert join.algorithm.inner.question.settings.published == published_too


def test_a_cache_has_as_many_rows_as_are_set_and_the_join_behind_has_the_rest():
    for h_R in (1, 100, 2_000):
        join, keys = staged(h_R=h_R)
        assert join.algorithm.cache.capacity == join.algorithm.split.h_R == h_R
        one_batch(join, keys)
        assert len(join.algorithm.cache) <= h_R
    small, large = (staged(h_R=h_R)[0].algorithm.inner.split.h_S for h_R in (100, 2_000))
    assert large < small


def test_a_cache_that_leaves_too_little_to_the_join_behind_is_refused_with_the_numbers():
    with pytest.raises(BudgetTooSmall, match=r"cmeshjoin: memory = 1,048,576 bytes, but .* needs [\d,]+"):
        staged(h_R=1_000_000)
    with pytest.raises(BadSetting, match="h_R = -1 must be at least 0"):
        staged(h_R=-1)


def test_only_rows_that_are_wanted_more_often_than_a_fixed_threshold_come_in():
    often = 30
    join, keys = staged(threshold=often, h_R=2_000)
    one_batch(join, keys)
    one_batch(join, keys)
    assert join.algorithm.threshold == often
    wanted = Counter(keys.to_pylist())
    cached = join.algorithm.cache.rows["key"].to_pylist()
    assert cached
    # A row counts the sales that wait when it is read, and they are of one batch.
    assert all(wanted[key] > often for key in cached)


def test_as_published_a_newcomer_comes_in_whatever_has_to_leave_and_counts_do_not_fade():
    ways = {}
    for published_too in (True, False):
        join, _ = staged(h_R=100, threshold=0, published=published_too)
        old, new = pa.array(list(range(0, 200, 2)) * 50), pa.array(list(range(200, 220, 2)))
        for keys in (old, old, new, new):
            one_batch(join, keys)
        before = join.statistics.hits
        one_batch(join, new)
        ways[published_too] = join.statistics.hits - before
    # As improved, ten rows wanted once or twice do not push out such as were wanted a hundred times.
    assert ways == {True: 10, False: 0}


def test_as_published_an_absent_key_is_not_remembered():
    for published_too in (True, False):
        join, _ = staged(published=published_too)
        for _ in range(3):
            one_batch(join, pa.array([1, 1, 1]))
        assert (join.statistics.hits > 0) == (not published_too)
