"""The front stage serves from memory what it may, and asks again when it must."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.generate.zipf import ZipfDraw
from pipeline.joins import JOINS, Join, Options, make, with_front_stage
from pipeline.joins.frontstage import FrontStage
from pipeline.master.memory import MemoryMaster
from tests.joins.harness import answer, drive, oracle
from tests.joins.workloads import master_table, thousands
from tests.kit.fakes import FakeClock, WatchedMaster

STALENESS, ABSENT_STALENESS = 300.0, 10.0
KEEP_ROWS = [name for name in JOINS if JOINS[name].keeps_rows and not JOINS[name].has_front_stage]


def cached(master: MemoryMaster, memory: int = 1 << 20, clock: FakeClock | None = None) -> Join:
    options = Options(max_staleness=STALENESS, absent_staleness=ABSENT_STALENESS, clock=clock or FakeClock())
    return make("front stage + inlj", master, memory, options)


@pytest.fixture
def master() -> WatchedMaster:
    return WatchedMaster(master_table([1, 2, 3], "integers"))


def test_a_second_batch_of_the_same_keys_asks_nothing(master):
    join = cached(master)
    keys = pa.array([1, 2, 9, 1, None])
    first, second = drive(join, keys), drive(join, keys)
    assert answer(first) == answer(second) == oracle(keys, master.table)
    assert len(master.asked) == 1
    assert (join.statistics.hits, join.statistics.misses) == (4, 4)


@pytest.mark.parametrize(("key", "life"), [(1, STALENESS), (9, ABSENT_STALENESS)], ids=["a row", "an absence"])
def test_what_is_cached_is_never_served_when_it_is_older_than_allowed(master, key, life):
    clock = FakeClock()
    join = cached(master, clock=clock)
    keys = pa.array([key] * 5)
    drive(join, keys)
    # Both the row of key 1 and the absence of key 9 are out of date from now on.
    master.replace(master_table([9, 2, 3], "integers"))
    clock.advance(life * 0.5)
    assert answer(drive(join, keys)) != oracle(keys, master.table)
    clock.advance(life * 0.5)
    assert answer(drive(join, keys)) == oracle(keys, master.table)


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    pauses=st.lists(st.floats(0, 400), min_size=1, max_size=8),
    seed=st.integers(0, 1000),
    memory=st.sampled_from([40_000, 1 << 20]),
)
def test_no_answer_is_older_than_allowed_whatever_the_rhythm(pauses, seed, memory):
    """Every version of the master gives each row its own surrogate key, so that an answer tells how old it is."""
    clock, versions = FakeClock(), {}
    rows = list(range(200))
    master = MemoryMaster.of(dict.fromkeys(rows, 0))
    join = cached(master, memory, clock)
    keys, _ = thousands(rows=150, sales=400, skew=1.0, seed=seed)
    for version, pause in enumerate(pauses):
        clock.advance(pause)
        versions[version] = clock()
        master.replace(MemoryMaster.of(dict.fromkeys(rows, version)).table)
        for _, served_version, _ in answer(drive(join, keys)):
            if served_version is not None and served_version < version:
                replaced_at = versions[served_version + 1]
                assert clock() - replaced_at < STALENESS


def test_rows_that_nobody_asks_for_again_stop_pushing_each_other_out():
    keys, master = thousands(rows=50_000, sales=200_000, skew=0.0, absent=0.0)
    join = cached(master, memory=400_000)
    drive(join, keys, cuts=range(100, 100_000, 100))
    before = join.statistics.evicted
    drive(join, keys[:50_000], cuts=range(100, 50_000, 100))
    assert join.algorithm.threshold >= 1
    assert join.statistics.evicted - before < 5_000


@pytest.mark.parametrize("windows", [6, 12])
def test_the_cache_serves_nearly_what_the_rows_most_wanted_would_also_when_others_are_wanted(windows):
    rows, h_R = 50_000, 100
    law = ZipfDraw(rows, 0.8)
    wanted = law.draw(np.random.default_rng(0).random(windows * 12_500))
    join = with_cache_of(h_R, MemoryMaster.of({key: key for key in range(rows)}))
    for moved in (0, rows // 2):
        for window in np.split((wanted + moved) % rows, windows):
            before = join.statistics.hits
            drive(join, pa.array(window))
        assert (join.statistics.hits - before) / len(window) > 0.94 * law.share_of_first(h_R)


def test_a_key_that_comes_once_a_window_is_told_from_one_that_comes_once():
    h_R = 500
    regular, join = np.arange(h_R), with_cache_of(h_R, MemoryMaster.of({key: key for key in range(41 * h_R)}), 200_000)
    for window in range(10):
        once = np.arange(h_R, 5 * h_R) + 4 * h_R * window
        drive(join, pa.array(np.random.default_rng(window).permutation(np.concatenate([regular, once]))))
    before = join.statistics.hits
    drive(join, pa.array(regular))
    assert join.statistics.hits - before > 0.75 * h_R


def with_cache_of(h_R: int, master: MemoryMaster, memory: int = 2 << 20) -> Join:
    return make("front stage + inlj", master, memory, Options(settings={"cmeshjoin": FrontStage.Settings(h_R=h_R)}))


def test_hits_that_are_held_are_no_more_than_those_of_the_longest_offer():
    keys, master = thousands(rows=5_000, sales=60_000, skew=1.2, absent=0.0)
    join = cached(master, memory=400_000)
    drive(join, keys[:20_000])
    offered, offers = 20_000, 0
    while taken := join.offer(np.arange(offered, len(keys)), keys[offered:]):
        offered, offers = offered + taken, offers + 1
        assert join.algorithm._hits.sales <= join._longest_offer
    assert offers >= 1
    while join.pending:
        join.step(drain=True)


def test_the_rows_most_in_demand_stay_when_memory_is_short():
    keys, plain = thousands(rows=5_000, sales=20_000, skew=1.2, absent=0.0)
    master = WatchedMaster(plain.table)
    join = cached(master, memory=200_000)
    for _ in range(5):
        drive(join, keys)
    before = join.statistics.hits
    drive(join, keys)
    share_of_rows = join.memory_used()["cache"] / plain.table.nbytes
    share_of_sales = (join.statistics.hits - before) / len(keys)
    assert share_of_rows < 0.4
    assert share_of_sales > 0.75
    assert join.statistics.evicted > 0


@pytest.mark.parametrize("name", ["meshjoin", "r-meshjoin"])
def test_behind_a_scan_absences_come_in_that_are_wanted_as_much_as_rows(name):
    keys, master = thousands(rows=5_000, sales=40_000, skew=1.0, absent=0.5)
    join = make(with_front_stage(name), master, memory=100_000)
    drive(join, keys)
    cache = join.algorithm.cache
    absences = sum(cache.many(cache._index.slots) == 0)
    assert 0.3 < absences / len(cache) < 0.7


def test_a_flood_of_one_unknown_key_asks_the_master_once(master):
    join = cached(master)
    for _ in range(20):
        drive(join, pa.array([77] * 100))
    assert master.asked == [[77]]


@pytest.mark.parametrize("name", KEEP_ROWS)
def test_a_row_kept_by_the_join_behind_and_then_by_the_cache_is_never_too_old(name):
    """Each window comes when the row is about to be too old for where it is: kept behind, handed on, cached."""
    clock, versions = FakeClock(), {0: 1_000.0}
    master = MemoryMaster.of(dict.fromkeys(range(500), 0))
    options = Options(max_staleness=STALENESS, absent_staleness=0, clock=clock)
    join = make(with_front_stage(name), master, 4 << 20, options)
    keys = pa.array([row for row in range(500) for _ in range(3)])
    for version in range(1, 12):
        for _, served_version, _ in answer(drive(join, keys)):
            assert served_version + 1 not in versions or clock() - versions[served_version + 1] < STALENESS
        clock.advance(STALENESS * 0.49)
        versions[version] = clock()
        master.replace(MemoryMaster.of(dict.fromkeys(range(500), version)).table)
    assert join.statistics.hits + join.algorithm.inner.statistics.hits > 0
