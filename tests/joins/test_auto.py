"""`auto` takes the cheapest way, asks for nothing twice, and follows the stream."""

import itertools
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from pipeline import joins
from pipeline.errors import BudgetTooSmall
from pipeline.joins import Join, Options, auto, inlj, make
from pipeline.joins.cost.caps import Caps
from pipeline.joins.cost.question import Relation, Stream
from pipeline.joins.cost.unit_costs import Line, UnitCosts
from tests.joins.harness import answer, drive, oracle
from tests.joins.workloads import thousands
from tests.kit.fakes import WatchedMaster

CHEAP, DEAR = Line(1e-9, 1e-9), Line(10.0, 1.0)
LOOK_UPS = UnitCosts(scan=DEAR, page=DEAR)
BATCHES_OF_300 = {"fetch": inlj.Settings(batch=300), "auto": auto.Settings(batch=300)}
SCANS = UnitCosts(lookup=DEAR, overlapped=DEAR, page=DEAR, scan=CHEAP)


def watched(rows: int, sales: int, skew: float = 0.8) -> tuple[pa.Array, WatchedMaster]:
    keys, plain = thousands(rows, sales, skew)
    return keys, WatchedMaster(plain.table)


def _ways(join: Join) -> set[str]:
    return {way for way in ("looked_up", "by_pages", "by_scan") if getattr(join.statistics, way)}


@pytest.mark.parametrize(("costs", "way"), [(LOOK_UPS, "looked_up"), (SCANS, "by_scan")])
def test_the_cheaper_way_is_taken_and_both_answer_alike(costs, way):
    keys, master = watched(rows=2_000, sales=4_000)
    join = make("fetch", master, 1 << 22, Options(costs=costs))
    assert answer(drive(join, keys, cuts=[1_500])) == oracle(keys, master.table)
    assert _ways(join) == {way}


@pytest.mark.parametrize(
    ("caps", "way"),
    [(Caps(), "looked_up"), (Caps(queries=10), "by_scan"), (Caps(rows=100, read=2_000), "looked_up")],
)
def test_a_way_that_has_to_wait_for_the_load_contract_costs_that_wait(caps, way):
    keys, master = watched(rows=2_000, sales=4_000)
    # Sixty look-ups or so, or a scan that takes longer than all of them, in few statements and more rows.
    costs = UnitCosts(lookup=Line(0.001, 1e-6), overlapped=Line(0.001, 1e-6), page=DEAR, scan=Line(0.4, 1e-6))
    options = Options(costs=costs, caps=caps, settings={"fetch": inlj.Settings(batch=20)})
    join = make("fetch", master, 1 << 22, options)
    assert answer(drive(join, keys)) == oracle(keys, master.table)
    assert _ways(join) == {way}


def test_no_key_is_asked_for_twice_in_a_batch():
    keys, master = watched(rows=2_000, sales=20_000)
    options = Options(settings=BATCHES_OF_300, costs=LOOK_UPS)
    for join in (make("fetch", master, 1 << 23, options), make("auto", master, 1 << 24, options)):
        master.asked.clear()
        drive(join, keys)
        asked = list(itertools.chain.from_iterable(master.asked))
        assert sorted(asked) == sorted(keys.unique().to_pylist())


def test_wanted_keys_that_lie_together_are_read_by_pages_and_the_others_by_name():
    keys, master = watched(rows=40_000, sales=10)
    crowded = np.concatenate([np.arange(0, 8_000, 2), [20_000, 60_001, 79_998]])
    keys = pa.array(np.random.default_rng(0).permutation(crowded))
    costs = UnitCosts(
        lookup=Line(0, 1e-5), overlapped=Line(0, 1e-5), page=Line(0, 1e-7), scan=DEAR, borders=1e-12, loop=0
    )
    join = make("fetch", master, 1 << 23, Options(costs=costs))
    for _ in range(3):
        assert answer(drive(join, keys)) == oracle(keys, master.table)
    assert join.statistics.by_pages >= 1
    last = list(itertools.chain.from_iterable(master.asked))[-3:]
    assert sorted(last) == [20_000, 60_001, 79_998]


@pytest.mark.parametrize("absent", [0.0, 0.3])
@pytest.mark.parametrize("memory", [20_000, 60_000, 400_000])
def test_the_scan_serves_everybody_though_sales_come_in_while_it_goes_on(memory, absent):
    keys, master = thousands(rows=2_000, sales=12_000, skew=0.3, absent=absent)
    join = make("fetch", master, memory, Options(costs=SCANS))
    assert answer(drive(join, keys, cuts=[3_000, 8_001])) == oracle(keys, master.table)
    assert _ways(join) == {"by_scan"}


def test_one_cycle_of_the_scan_serves_nearly_twice_the_sales_that_wait():
    keys, master = thousands(rows=20_000, sales=200_000, skew=0.0, absent=0.0)
    join = make("fetch", master, 400_000, Options(costs=SCANS))
    h_S = join.algorithm._waiting.capacity
    served = endless(join, keys, until=lambda: master.reads.by_kind["scan"].rows >= 5 * 20_000)
    assert served > 1.7 * h_S * 4


def test_who_came_late_is_looked_up_before_the_scan_comes_round_to_him():
    keys, master = thousands(rows=20_000, sales=3_000, skew=0.0, absent=0.2)
    by_name = Line(0.0, 1e-3)
    costs = UnitCosts(lookup=by_name, overlapped=by_name, scan=Line(0.0, 5e-5), page=DEAR, loop=0.0, c_H=0.0)
    join = make("fetch", master, 4 << 20, Options(costs=costs))
    served = []
    assert join.offer(np.arange(2_950), keys[:2_950]) == 2_950
    while join.pending > 2_000:
        served += join.step()
    assert join.offer(np.arange(2_950, 3_000), keys[2_950:]) == 50
    while join.pending:
        served += join.step(drain=True)
    assert answer(served) == oracle(keys, master.table)
    assert 0 < master.reads.by_kind["lookup"].rows < 50
    assert 20_000 <= master.reads.by_kind["scan"].rows < 26_000


def endless(join: Join, keys: pa.Array, until: Callable[[], bool]) -> int:
    """How many sales were served of those that come as long as there is room."""
    offered = 0
    while not until():
        while True:
            some = keys.slice(offered % (len(keys) - 5_000), 5_000)
            taken = join.offer(np.arange(offered, offered + len(some)), some)
            offered += taken
            if not taken:
                break
        join.step()
    return offered - join.pending


def test_what_a_look_up_really_costs_moves_the_choice():
    """The clock says that look-ups take a thousand times what was thought: after two windows the scan is taken."""
    keys, master = watched(rows=2_000, sales=4_000, skew=0.0)
    ticks = itertools.count(step=5.0)
    costs = UnitCosts(overlapped=Line(1e-6, 1e-6), lookup=Line(1e-6, 1e-6), scan=Line(1e-3, 1e-3), page=DEAR)
    join = make("fetch", master, 1 << 22, Options(costs=costs, clock=lambda: next(ticks)))
    for _ in range(4):
        drive(join, keys)
    assert join.statistics.looked_up >= 2
    assert join.statistics.by_scan >= 1


def test_without_skew_the_cache_gives_its_memory_to_the_waiting_sales():
    keys, plain = thousands(rows=30_000, sales=240_000, skew=0.0, absent=0.0)
    scan_wins = UnitCosts(lookup=Line(1e-4, 1e-4), overlapped=Line(1e-4, 1e-4), page=DEAR, scan=Line(1e-4, 1e-6))
    more_skew = Stream(e=1.5, batch=20_000)  # than there is
    join = make("auto", plain, 600_000, Options(costs=scan_wins, stream=more_skew))
    before = join.algorithm.split.behind
    drive(join, keys, cuts=range(20_000, 240_000, 20_000))
    assert join.algorithm.split.behind > before
    assert answer(drive(join, keys[:5_000])) == oracle(keys[:5_000], plain.table)


def test_more_sales_are_waited_for_only_while_they_come():
    keys, master = watched(rows=500, sales=300)
    join = make("fetch", master, 1 << 22, Options(costs=LOOK_UPS))
    assert join.offer(np.arange(200), keys[:200]) == 200
    assert join.step() == []
    assert not master.asked
    assert join.step() == []  # asked, and nobody waits for it yet
    assert master.asked
    assert join.step()


def test_no_key_waits_for_ever_while_others_keep_coming():
    keys, master = watched(rows=5_000, sales=400_000, skew=1.0)
    join = make("fetch", master, 200_000, Options(settings=BATCHES_OF_300, costs=LOOK_UPS))
    offered, longest = 0, 0
    while offered < len(keys):
        while taken := join.offer(np.arange(offered, min(offered + 5_000, len(keys))), keys.slice(offered, 5_000)):
            offered += taken
        join.step()
        if join.pending:
            oldest = join.algorithm._waiting.positions[join.algorithm._waiting.oldest()[0]]
            longest = max(longest, offered - int(oldest))
    assert longest < 20 * join.algorithm._waiting.capacity


def test_with_very_little_memory_auto_looks_up_and_has_no_cache():
    keys, master = watched(rows=2_000, sales=1_000)
    _, other = watched(rows=2_000, sales=1_000)
    least = joins.least_memory("auto", make("inlj", other, 1 << 20).relation)
    for memory in (least, 8_000):
        join = make("auto", master, memory)
        assert answer(drive(join, keys)) == oracle(keys, master.table)
        assert (join.label, join.cached_rows) == ("auto", 0)
    with pytest.raises(BudgetTooSmall, match=f"auto: memory = {least - 1:,} bytes"):
        make("auto", master, least - 1)
    assert "cache" in make("auto", master, 4 << 20).memory_used()


@pytest.mark.parametrize("start", [1e-6, 2e-4])
def test_connections_share_no_queries_that_are_shorter_than_those_their_costs_were_measured_with(start):
    """A line through 250 and 2 000 keys, read at 24: in a bad minute it promises what no server keeps."""
    _, master = watched(rows=20_000, sales=1)
    costs = UnitCosts(overlapped=Line(start, 3e-6), lookup=Line(5e-4, 3e-6), page=DEAR, scan=DEAR)
    lanes = set()
    for memory in (8_000, 20_000, 50_000, 100_000, 1_000_000):
        split = make("fetch", master, memory, Options(costs=costs, connections=2)).algorithm.split
        assert split.lanes == 1 or split.b >= 250
        lanes.add(split.lanes)
    assert lanes == {1, 2}


def test_where_sales_are_alike_and_a_scan_is_cheap_auto_scans_without_a_cache():
    keys, master = watched(rows=20_000, sales=100_000, skew=0.0)
    costs = UnitCosts(lookup=Line(1e-4, 1e-5), overlapped=Line(1e-4, 1e-5), page=DEAR, scan=Line(1e-4, 1e-7))
    options = Options(costs=costs, stream=Stream(e=0.0, batch=1 << 40))
    join = make("auto", master, 1_000_000, options)
    assert answer(drive(join, keys)) == oracle(keys, master.table)
    assert join.statistics.by_scan
    assert join.cached_rows == 0
    assert joins.predict("auto", 1_000_000, join.relation, options).remark.startswith("takes the cheapest way")


@pytest.mark.parametrize("skew", [0.0, 0.5, 0.75, 1.0, 1.25])
@pytest.mark.parametrize("share", [0.003, 0.03, 0.3])
def test_auto_promises_nine_tenths_of_the_best_join_whatever_look_ups_cost(skew, share):
    costs = UnitCosts(scan=Line(5e-4, 3.5e-7), loop=4e-4, c_F=8e-8, c_S=2e-8, c_A=2e-8, c_E=2e-8, c_H=4e-8, c_O=4e-8)
    for a_key in (6e-7, 3e-6, 1.5e-5):
        told = replace(costs, lookup=Line(4e-4, a_key), overlapped=Line(1e-3, a_key))
        options = Options(costs=told, stream=Stream(e=skew, batch=1 << 40))
        table = Relation(R_t=200_000, v_R=57, words=2, row_bytes=153)
        promised = {}
        for name in ("auto", "inlj", "front stage + inlj", "meshjoin", "r-meshjoin", "cmeshjoin"):
            with suppress(BudgetTooSmall):
                promised[name] = joins.predict(name, int(2e7 * share), table, options).mu
        assert promised["auto"] >= 0.9 * max(promised.values())
