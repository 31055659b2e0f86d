"""Tables where a key may have many rows, because no unique index says otherwise: each sale comes out with all of them,
from a cache too."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

from pipeline.joins import Join, Options, frontstage, make, recipe
from pipeline.joins.parts.gathering import Gathering
from pipeline.master.memory import MemoryMaster
from tests.joins.harness import VARIANTS, answer, drive, oracle, smallest_memory
from tests.joins.workloads import master_table, repeated
from tests.kit.fakes import FakeClock

TAKE_REPEATED_KEYS = [str(variant) for variant in VARIANTS if recipe(str(variant)).reads(unique=False, indexed=True)]
STAGED = [name for name in TAKE_REPEATED_KEYS if recipe(name).has_front_stage]
of_all = pytest.mark.parametrize("variant", [v for v in VARIANTS if str(v) in TAKE_REPEATED_KEYS], ids=str)
of_staged = pytest.mark.parametrize("name", STAGED)
STALENESS = 300.0


@of_all
@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(case=repeated())
def test_every_sale_comes_out_with_all_rows_of_its_key_in_every_batch(variant, case):
    keys, table, cuts, spare = case
    master = MemoryMaster(table, unique=False, indexed=True)
    join = variant.build(master, smallest_memory(variant, master) + spare)
    wanted = oracle(keys, table)
    for _ in range(3):
        assert answer(drive(join, keys, cuts)) == wanted


def sold(keys: int, times: int, sales: int, skew: float = 1.2, seed: int = 0) -> tuple[pa.Array, MemoryMaster]:
    """Sales by Zipf's law, and a table with so many rows a key, one after the other's."""
    random = np.random.default_rng(seed)
    weights = 1.0 / np.arange(1, keys + 1) ** skew
    wanted = pa.array(random.choice(keys, sales, p=weights / weights.sum()))
    return wanted, MemoryMaster(
        master_table([key for _ in range(times) for key in range(keys)], "integers"), unique=False, indexed=True
    )


@of_staged
@pytest.mark.parametrize("times", [1, 4])
def test_what_is_wanted_most_is_served_from_memory_and_needs_no_scan(name, times):
    keys, master = sold(keys=2_000, times=times, sales=4_000)
    # By its own model a front stage before R-MESHJOIN would have but a hundred rows here.
    large = {"cmeshjoin": frontstage.Settings(h_R=1_500)}
    join = make(name, master, 600_000, Options(clock=FakeClock(), settings=large))
    wanted = oracle(keys, master.table)
    for _ in range(8):
        assert answer(drive(join, keys)) == wanted
    before = join.statistics.hits
    drive(join, keys)
    assert join.statistics.hits - before > len(keys) * (0.75 if times == 1 else 0.5)


@of_staged
def test_when_all_that_is_wanted_is_in_memory_the_table_is_read_no_more(name):
    keys, master = sold(keys=50, times=3, sales=1_000)
    join = make(name, master, 4 << 20, Options(clock=FakeClock()))
    drive(join, keys)
    drive(join, keys)
    before = master.reads.by_kind["scan"].queries
    assert answer(drive(join, keys)) == oracle(keys, master.table)
    assert master.reads.by_kind["scan"].queries == before


@of_staged
def test_a_stream_that_never_ends_fills_the_cache_too(name):
    """Some sale always waits; so no end of a batch says that all have met all of R. (The sales of R-MESHJOIN come in
    and leave together, if H is filled at once.)"""
    keys, master = sold(keys=5_000, times=4, sales=60_000, skew=0.9)
    join = make(name, master, 600_000, Options(clock=FakeClock()))
    served, offered = [], 0
    while join.statistics.hits < 2_000:
        while taken := join.offer(np.arange(offered, len(keys)), keys[offered:]):
            offered += taken
        assert offered < len(keys), "the stream is over, and the cache serves too little"
        served += join.step()
        join.check()
        assert join.pending or "r-meshjoin" in name
    while join.pending:
        served += join.step(drain=True)
    assert answer(served) == oracle(keys[:offered], master.table)


@of_staged
def test_rows_that_come_and_go_are_seen_when_those_in_memory_have_grown_too_old(name):
    clock = FakeClock()
    keys, master = sold(keys=50, times=3, sales=1_000)
    join = make(name, master, 1 << 20, Options(max_staleness=STALENESS, absent_staleness=0, clock=clock))
    for _ in range(2):
        drive(join, keys)
    old = oracle(keys, master.table)
    master.replace(master_table([key for _ in range(5) for key in range(1, 60)], "integers"))
    clock.advance(STALENESS * 0.5)
    assert answer(drive(join, keys)) == old
    clock.advance(STALENESS * 0.5)
    assert answer(drive(join, keys)) == oracle(keys, master.table)


@of_staged
def test_rows_that_have_changed_are_served_anew_with_all_others_of_their_key(name):
    keys, master = sold(keys=50, times=3, sales=1_000)
    join = make(name, master, 1 << 20, Options(clock=FakeClock()))
    for _ in range(2):
        drive(join, keys)
    master.replace(pa.concat_tables([master.table, master_table([7, 7, 9], "integers")]).combine_chunks())
    join.changed(pa.array([7, 9]))
    assert answer(drive(join, keys)) == oracle(keys, master.table)


@of_staged
def test_rows_that_are_read_while_the_table_changes_are_those_that_the_leading_sale_met(name):
    """A row that comes in behind the scan is not met by the leader: then the cache has what the leader came out with,
    never a part of it."""
    keys, master = sold(keys=40, times=6, sales=3_000)
    join = make(name, master, 200_000, Options(clock=FakeClock()))
    for seed in range(6):
        random = np.random.default_rng(seed)
        rows = np.sort(random.choice(len(master.table), len(master.table) // 2, replace=False))
        half = MemoryMaster(master.table.take(pa.array(rows)), unique=False, indexed=True)
        join = make(name, half, 200_000, Options(clock=FakeClock()))
        wanted = oracle(keys, half.table)
        assert answer(drive(join, keys, cuts=range(100, 3_000, 100))) == wanted
    assert join.statistics.hits


def test_where_the_rows_do_not_fit_the_keys_that_are_wanted_least_are_given_up():
    table = master_table([key for key in range(10) for _ in range(20)], "integers")
    gathering = Gathering(cached_rows=1_600, row_bytes=table.nbytes / len(table), words=1, schema=table.schema)
    codes = table["key"].combine_chunks().to_numpy().astype(np.uint64)[:, None]
    # Key k is wanted by k + 1 sales, of which the first leads.
    wanting = np.concatenate([np.full(key + 1, key, np.uint64) for key in range(10)])[:, None]
    gathering.follow(np.arange(len(wanting)), wanting, now=5.0)
    leader = np.array([int(np.flatnonzero(wanting[:, 0] == key)[0]) for key in range(10)])
    for first in range(0, 20, 4):  # four rows of each key at a time
        rows = np.array([key * 20 + number for key in range(10) for number in range(first, first + 4)])
        gathering.gather(np.repeat(leader, 4), table.take(pa.array(rows)), np.arange(40), codes[rows])
        gathering.check()
        assert gathering.nbytes <= Gathering.bytes_for(1_600, table.nbytes / len(table), 1)
    done = gathering.conclude(lambda positions: np.ones(len(positions), bool))
    kept = done.codes[:, 0].tolist()
    assert kept == sorted(kept) == list(range(10 - len(kept), 10))
    assert 2 <= len(kept) <= 5
    assert done.many.tolist() == [20] * len(kept)
    assert done.rows["key"].to_pylist() == [key for key in kept for _ in range(20)]
    assert done.since.tolist() == [5.0] * len(kept)


def test_a_cached_key_with_very_many_rows_comes_out_in_pieces():
    keys, master = sold(keys=3, times=2_000, sales=300)
    join: Join = make("front stage + meshjoin", master, 16 << 20, Options(clock=FakeClock()))
    for _ in range(2):
        drive(join, keys)
    hits = join.statistics.hits
    longest = join._longest_offer
    offered = served = 0
    while offered < len(keys) or join.pending:
        offered += join.offer(np.arange(offered, len(keys)), keys[offered:])
        pieces = join.step(drain=True)
        assert sum(len(piece.sales) for piece in pieces) <= longest
        served += sum(len(piece.sales) for piece in pieces)
    assert join.statistics.hits - hits == 300
    assert served == 300 * 2_000
