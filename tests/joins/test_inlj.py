"""The index nested loop join asks for what it needs, and for nothing twice."""

import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

from pipeline.errors import NotUnique
from pipeline.joins import Options, inlj, make
from pipeline.master.memory import MemoryMaster
from tests.joins.harness import Variant, answer, drive, oracle, smallest_memory
from tests.joins.workloads import master_table, repeated, thousands
from tests.kit.fakes import WatchedMaster


def batches_of(keys: int) -> Options:
    return Options(settings={"inlj": inlj.Settings(batch=keys)})


@pytest.fixture
def busy():
    """3 000 skewed sales over 1 000 rows, one in ten of them absent."""
    keys, plain = thousands(rows=1_000, sales=3_000, skew=1.0)
    return keys, WatchedMaster(plain.table)


@pytest.mark.parametrize("memory", ["least", 100_000, 1 << 24])
def test_a_key_is_asked_for_at_most_once_a_window(busy, memory):
    keys, master = busy
    if memory == "least":
        memory = smallest_memory(Variant("inlj"), master)
    join = make("inlj", master, memory)
    offered = 0
    while offered < len(keys):
        asked_before = len(master.asked)
        taken = join.offer(np.arange(offered, len(keys)), keys.slice(offered))
        window = keys.slice(offered, taken)
        offered += taken
        while join.pending:
            join.step()
        asked = list(itertools.chain.from_iterable(master.asked[asked_before:]))
        assert sorted(asked) == sorted(window.unique().to_pylist())


def test_a_whole_batch_that_fits_is_one_window_of_full_queries(busy):
    keys, master = busy
    distinct = len(keys.unique())
    drive(make("inlj", master, 1 << 24, batches_of(100)), keys)
    assert [len(asked) for asked in master.asked] == [100] * (distinct // 100) + [distinct % 100]


def test_one_key_a_query_as_published(busy):
    keys, master = busy
    served = drive(make("inlj", master, 60_000, batches_of(1)), keys)
    assert answer(served) == oracle(keys, master.table)
    assert {len(asked) for asked in master.asked} == {1}


def test_an_answer_of_rows_twice_as_wide_as_the_mean_fits_the_budget():
    wide = master_table(list(range(4_000)), "integers")
    labels = ["x" * (200 if row < 1_000 else 20) for row in range(4_000)]
    wide = wide.set_column(3, "label", [labels])
    master = WatchedMaster(wide)
    keys = wide["key"].combine_chunks()
    assert answer(drive(make("inlj", master, 60_000), keys)) == oracle(keys, wide)


@pytest.mark.parametrize("batch", [1, 3])
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(case=repeated())
def test_where_keys_repeat_every_sale_comes_out_with_all_rows_of_its_key(batch, case):
    keys, table, cuts, spare = case
    master = MemoryMaster(table, unique=False, indexed=True)
    join = make("inlj", master, smallest_memory(Variant("inlj"), master) + spare, batches_of(batch))
    assert answer(drive(join, keys, cuts)) == oracle(keys, table)


def test_a_key_with_very_many_rows_is_read_in_pieces_and_a_sale_leaves_with_the_last_one():
    table = master_table([7] * 9_000 + [8], "integers")
    join = make("inlj", MemoryMaster(table, unique=False, indexed=True), 200_000)
    assert join.offer(np.arange(3), pa.array([7, 8, 9])) == 3
    came_out, steps, left = np.zeros(3, int), 0, []
    while join.pending:
        for served in join.step():
            came_out[served.sales] += len(served.sales) if served.match[0] >= 0 else -1
        join.check()
        left.append(int(join.algorithm.finished(np.array([0]))[0]))
        assert join.memory_used()["answer"] < 100_000
        steps += 1
    assert came_out.tolist() == [9_000, 1, -1]
    pieces = join.master.reads.by_kind["lookup"].queries
    assert 9_000 / join.algorithm.split.rows < pieces <= steps
    assert left.index(1) == 9_000 // join.algorithm.split.rows  # with its last row, not before


def test_so_many_keys_are_asked_for_as_fill_a_piece():
    """Few at first; more as they bring few rows, fewer when they bring many."""

    class Watched(MemoryMaster):
        def lookup_from(self, keys, position, rows):
            asked.append(len(keys) if position is None else 0)
            return super().lookup_from(keys, position, rows)

    asked: list[int] = []
    few = [key for key in range(2_000) for _ in range(2)]
    many = [key for key in range(2_000, 2_040) for _ in range(900)]
    master = Watched(master_table(few + many, "integers"), unique=False, indexed=True)
    join = make("inlj", master, 500_000)
    drive(join, pa.array(range(2_000)))
    assert asked[:5] == [1, 2, 4, 8, 16]
    most = max(asked)
    assert join.algorithm.split.rows / 8 <= most <= join.algorithm.split.rows / 2
    asked.clear()
    drive(join, pa.array(range(2_000, 2_040)))
    assert asked[-1] <= 1


def test_without_any_index_it_is_refused():
    with pytest.raises(NotUnique, match="inlj needs an index"):
        make("inlj", MemoryMaster(master_table([1, 1], "integers"), unique=False), 1 << 20)
