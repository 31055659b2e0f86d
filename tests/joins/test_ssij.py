"""SSIJ: its three phases, and which blocks it keeps."""

import numpy as np
import pyarrow as pa
import pytest

from pipeline.joins import Options, make
from pipeline.joins.cost.question import Stream
from tests.joins.harness import answer, drive, oracle
from tests.joins.workloads import thousands
from tests.kit.fakes import FakeClock


@pytest.fixture
def join():
    """A join over 4 000 rows in some dozens of blocks, of which a few can be kept."""
    _, master = thousands(rows=4_000, sales=0, skew=0.0)
    join = make("ssij", master, 200_000, Options(stream=Stream(e=1.5)))
    assert 1 <= join.algorithm.split.pages_kept < join.algorithm.split.k / 2
    return join


def on_block(join, block: int, count: int) -> pa.Array:
    return pa.array([2 * (block * join.algorithm.split.d + number % join.algorithm.split.d) for number in range(count)])


def serve(join, keys: pa.Array) -> int:
    """Serve a window; how many of its sales a kept block served."""
    hits, offered = join.statistics.hits, 0
    while offered < len(keys) or join.pending:
        offered += join.offer(np.arange(offered, len(keys)), keys.slice(offered)) if offered < len(keys) else 0
        join.step(drain=offered == len(keys))
        join.check()
    return join.statistics.hits - hits


def test_sales_are_collected_until_there_are_enough(join):
    join.offer(np.arange(3), on_block(join, 2, 3))
    assert join.step() == []
    assert join.pending == 3
    assert not join.master.reads.by_kind["page"].queries


def test_the_end_of_the_stream_ends_the_pending_phase(join):
    join.offer(np.arange(3), on_block(join, 2, 3))
    [served] = join.step(drain=True)
    assert (served.sales.tolist(), join.pending) == ([0, 1, 2], 0)


def test_a_pause_ends_the_pending_phase_too(join):
    join.offer(np.arange(3), on_block(join, 2, 3))
    join.step()
    [served] = join.step()
    assert (served.sales.tolist(), join.pending) == ([0, 1, 2], 0)


def test_the_block_with_the_most_waiting_sales_is_read_first(join):
    keys = pa.concat_arrays([on_block(join, block, count) for block, count in ((2, 2), (5, 4), (3, 3))])
    assert join.offer(np.arange(len(keys)), keys) == len(keys)
    assert [sum(len(piece.sales) for piece in join.step(drain=True)) for _ in range(3)] == [4, 3, 2]


def test_the_most_wanted_blocks_stay_when_all_others_come_by(join):
    wanted = pa.concat_arrays([on_block(join, 3, 60)] * 10)
    serve(join, wanted)
    for block in range(join.algorithm.split.k):
        serve(join, on_block(join, block, 1))
    assert serve(join, on_block(join, 3, 20)) == 20
    assert join.statistics.evicted


def test_a_block_that_is_no_longer_wanted_makes_room_for_one_that_is(join):
    for block in range(join.algorithm.split.pages_kept):
        serve(join, pa.concat_arrays([on_block(join, block, 60)] * 3))
    newcomer = join.algorithm.split.k - 2
    for _ in range(40 * join.algorithm.split.h_S // 400):
        serve(join, pa.concat_arrays([on_block(join, newcomer, 100)] * 4))
    assert serve(join, on_block(join, newcomer, 20)) == 20


def test_a_kept_block_expires():
    keys, master = thousands(rows=100, sales=50, skew=1.0, absent=0.0)
    clock = FakeClock()
    join = make("ssij", master, 1 << 20, Options(stream=Stream(e=1.5, batch=50), max_staleness=60, clock=clock))
    drive(join, keys)
    clock.advance(59)
    assert serve(join, keys) == 50
    clock.advance(2)
    assert serve(join, keys) == 0
    assert answer(drive(join, keys)) == oracle(keys, master.table)
