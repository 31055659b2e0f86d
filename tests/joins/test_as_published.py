"""As published: what each paper's own algorithm does otherwise, and that the answers stay the same."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from pipeline.joins import Join, Options, hybridjoin, make, meshjoin, rmeshjoin, xhybridjoin
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
}
ROWS, SALES = 20_000, 40_000


def published(name: str, master: MemoryMaster, memory: int, **more: object) -> Join:
    settings = {name: xhybridjoin.Settings(published=True, **more)} if more else AS_PUBLISHED
    return make(name, master, memory, Options(settings=settings, stream=Stream(e=1.0, batch=SALES)))


@pytest.mark.parametrize("name", AS_PUBLISHED)
@pytest.mark.parametrize("memory", [40_000, 1 << 20])
def test_the_answers_are_those_of_sql(name, memory):
    keys, master = thousands(rows=1_000, sales=3_000, skew=0.8)
    join = published(name, master, memory)
    served: list[Served] = []
    for first, last in ((0, 1), (1, 900), (900, len(keys))):
        offered = first
        while offered < last or join.pending:
            taken = 1
            while offered < last and taken:
                taken = join.offer(np.arange(offered, last), keys.slice(offered, last - offered))
                offered += taken
            served += join.step(drain=offered == last)
            join.check()
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
