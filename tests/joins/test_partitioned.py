"""The partition-based join: when a partition is read, what stays on the first level, and what its model says of it."""

import numpy as np
import pyarrow as pa
import pytest

from pipeline import joins
from pipeline.joins import Options, make
from pipeline.joins.cost.question import Stream
from pipeline.master.memory import MemoryMaster
from tests.joins.harness import Variant, answer, drive, oracle, smallest_memory
from tests.joins.workloads import master_table, thousands
from tests.kit.fakes import FakeClock

WINDOW = 6_000


def pages_read(join) -> int:
    return join.master.reads.by_kind["page"].queries


def serve(join, keys) -> None:
    """One window, without the harness's checks after every step."""
    offered = 0
    while offered < len(keys) or join.pending:
        if offered < len(keys):
            offered += join.offer(np.arange(offered, len(keys)), keys.slice(offered))
        join.step(drain=offered == len(keys))


@pytest.fixture
def many_pages():
    """A join over 4 000 rows in a dozen partitions or more, whose rows are not kept."""
    _, master = thousands(rows=4_000, sales=0, skew=0.0)
    join = make("partitioned", master, 100_000, Options(max_staleness=0))
    assert join.algorithm.split.reads_pages
    assert 10 < join.algorithm.split.k < 200
    return join


def keys_on_page(join, page: int, count: int) -> pa.Array:
    first = page * join.algorithm.split.d
    return pa.array([2 * (first + number % join.algorithm.split.d) for number in range(count)])


def test_a_partition_is_read_when_its_slot_has_reached_the_threshold_and_not_before(many_pages):
    threshold = many_pages.algorithm.split.threshold
    assert many_pages.offer(np.arange(threshold - 1), keys_on_page(many_pages, 3, threshold - 1)) == threshold - 1
    assert many_pages.step() == []
    assert many_pages.offer(np.array([threshold]), keys_on_page(many_pages, 3, 1)) == 1
    [served] = many_pages.step()
    assert len(served.sales) == threshold
    assert (pages_read(many_pages), many_pages.pending) == (1, 0)


def test_when_the_waiting_area_is_full_the_fullest_slot_is_read(many_pages):
    h_S, threshold = many_pages.algorithm.split.h_S, many_pages.algorithm.split.threshold
    page_of_sale = np.arange(10 * h_S) % min(many_pages.algorithm.split.k, 2 * h_S // threshold + 1)
    assert h_S // page_of_sale.max() < threshold
    page_of_sale[-2:] = 1
    keys = pa.array(2 * many_pages.algorithm.split.d * page_of_sale)
    taken = many_pages.offer(np.arange(h_S), keys.slice(0, h_S))
    while taken < h_S - 1:
        assert many_pages.step() == []
        taken += many_pages.offer(np.arange(taken, h_S - 1), keys.slice(taken, h_S - 1 - taken))
    assert many_pages.offer(np.array([h_S]), pa.array([0])) == 1
    waiting = np.bincount([*page_of_sale[: h_S - 1], 0])
    [served] = many_pages.step()
    assert len(served.sales) == waiting.max()


def test_a_sale_whose_slot_never_fills_is_served_after_two_rounds_at_most(many_pages):
    many_pages.offer(np.array([0]), keys_on_page(many_pages, 7, 1))
    waited, threshold, position = 0, many_pages.algorithm.split.threshold, 1
    assert threshold > 1
    while 0 not in [sale for piece in many_pages.step() for sale in piece.sales]:
        # The stream goes on, and its slots are always fuller.
        many_pages.offer(np.arange(position, position + threshold), keys_on_page(many_pages, 3, threshold))
        position += threshold
        waited += 1
        assert waited <= 2 * many_pages.algorithm.split.k + 2
    assert waited >= many_pages.algorithm.split.k


def test_with_no_new_sales_the_fullest_slots_are_read_one_a_step(many_pages):
    keys = pa.concat_arrays([keys_on_page(many_pages, page, page + 1) for page in (2, 4, 3)])
    assert many_pages.offer(np.arange(len(keys)), keys) == len(keys)
    many_pages.step()
    assert [sum(len(piece.sales) for piece in many_pages.step()) for _ in range(3)] == [5, 4, 3]


def test_rows_read_not_long_ago_serve_sales_on_arrival_until_they_are_too_old():
    keys, master = thousands(rows=100, sales=50, skew=1.0, absent=0.0)
    clock = FakeClock()
    join = make("partitioned", master, 1 << 20, Options(stream=Stream(e=1.5, batch=50), max_staleness=60, clock=clock))
    assert join.algorithm.split.pages_kept == join.algorithm.split.k, "this budget keeps all of R"
    assert answer(drive(join, keys)) == oracle(keys, master.table)
    read = pages_read(join)
    clock.advance(59)
    assert answer(drive(join, keys)) == oracle(keys, master.table)
    assert (pages_read(join), join.statistics.hits) == (read, 50)
    clock.advance(2)
    assert answer(drive(join, keys)) == oracle(keys, master.table)
    assert (pages_read(join), join.statistics.hits) == (2 * read, 50)


def test_a_key_that_is_not_on_its_kept_partition_is_asked_for_by_name_and_the_partition_not_read_again():
    master = MemoryMaster(master_table([2 * row for row in range(100)], "integers"))
    join = make("partitioned", master, 1 << 20, Options(stream=Stream(e=1.5, batch=50)))
    drive(join, pa.array([2 * row for row in range(100)]))
    read = pages_read(join)
    assert answer(drive(join, pa.array([5, 7]))) == oracle(pa.array([5, 7]), master.table)
    assert (pages_read(join), master.reads.by_kind["lookup"].queries) == (read, 1)


def test_without_memory_for_short_partitions_keys_are_asked_for_by_name():
    keys, master = thousands(rows=20_000, sales=60, skew=0.5)
    join = make("partitioned", master, smallest_memory(Variant("partitioned"), master))
    assert not join.algorithm.split.reads_pages
    assert answer(drive(join, keys)) == oracle(keys, master.table)
    assert not pages_read(join)
    remarks = [
        joins.predict("partitioned", memory, join.relation, Options()).remark for memory in (join.memory, 1 << 22)
    ]
    assert ["asks by name" in remark for remark in remarks] == [True, False]


@pytest.mark.parametrize("absent", [0.0, 0.1])
@pytest.mark.parametrize("skew", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("memory", [250_000, 1_500_000])
@pytest.mark.parametrize("name", ["partitioned", "ssij"])
def test_the_model_foretells_queries_and_rows_within_20_percent(name, memory, skew, absent):
    keys, master = thousands(20_000, 2 * WINDOW, skew, absent=0.0)
    random = np.random.default_rng(2)
    unknown = 2 * random.permutation(20_000)[: 2 * WINDOW] + 1
    keys = pa.array(np.where(random.random(2 * WINDOW) < absent, unknown, keys.to_numpy()))
    options = Options(stream=Stream(e=skew, batch=WINDOW, absent=absent))
    join = make(name, master, memory, options)
    serve(join, keys.slice(0, WINDOW))  # fills the cache
    reads = master.reads.by_kind
    before = {kind: (reads[kind].queries, reads[kind].rows) for kind in ("page", "lookup")}
    serve(join, keys.slice(WINDOW))
    queries = sum(reads[kind].queries - count for kind, (count, _) in before.items())
    rows = sum(reads[kind].rows - count for kind, (_, count) in before.items())
    foretold = join.algorithm.model.predict(join.algorithm.question)
    assert foretold.queries / foretold.mu * WINDOW == pytest.approx(queries, rel=0.2)
    assert foretold.rows / foretold.mu * WINDOW == pytest.approx(rows, rel=0.2)
    assert sum(foretold.split.values()) <= memory
