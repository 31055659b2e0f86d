"""The index nested loop join asks for what it needs, and for nothing twice."""

import itertools

import numpy as np
import pytest

from pipeline.joins import Options, inlj, make
from tests.joins.harness import Variant, answer, drive, oracle, smallest_memory
from tests.joins.workloads import master_table, thousands
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
