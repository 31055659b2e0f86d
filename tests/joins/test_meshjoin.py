"""The joins that scan: how much they read and when a sale may leave, also while R changes under them."""

import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from pipeline.errors import BudgetTooSmall
from pipeline.joins import Join, Options, make, meshjoin, rmeshjoin
from pipeline.joins.algorithm import ABSENT
from pipeline.joins.cost import meshjoin as cost
from pipeline.joins.cost import rmeshjoin as reduced_cost
from pipeline.joins.cost.question import Question, Relation, Stream
from pipeline.joins.cost.results import Results
from pipeline.joins.cost.unit_costs import Line, UnitCosts
from pipeline.master.memory import MemoryMaster
from tests.joins.harness import Variant, answer, drive, oracle, smallest_memory
from tests.joins.workloads import master_table, thousands

both = pytest.mark.parametrize("name", ["meshjoin", "r-meshjoin"])
NOTHING_BUT_THE_LOOP = UnitCosts(
    scan=Line(0.0, 0.0), loop=1.0, c_K=0.0, c_F=0.0, c_P=0.0, c_S=0.0, c_A=0.0, c_E=0.0, c_H=0.0, c_O=0.0
)
RELATION = Relation(R_t=2_000_000, v_R=90.0, words=1, row_bytes=212.0)


class Scanned(MemoryMaster):
    """Remembers its scans."""

    def scan(self, position, rows, until=None):
        scan = super().scan(position, rows, until)
        self.scans = [*getattr(self, "scans", []), (position, rows, scan)]
        return scan

    @property
    def keys_read(self) -> list[int]:
        return [key for *_, scan in self.scans for key in scan.rows["key"].to_pylist()]


def even_keys(rows: int) -> Scanned:
    return Scanned(master_table(list(range(0, 2 * rows, 2)), "integers"))


def with_least_memory(name: str, master: MemoryMaster) -> Join:
    return make(name, master, smallest_memory(Variant(name), master))


def offer(join, *keys: int, first: int = 0) -> int:
    return join.offer(np.arange(first, first + len(keys)), pa.array(keys))


def test_an_iteration_reads_b_rows_and_w_sales_as_the_split_says():
    keys, plain = thousands(rows=5_000, sales=4_000, skew=0.0)
    master = Scanned(plain.table)
    join = make("meshjoin", master, 100_000)
    assert join.algorithm.split.slots == join.algorithm.split.k > 5
    taken = 0
    while taken + join.algorithm.split.w <= len(keys):
        while more := join.offer(np.arange(taken, len(keys)), keys.slice(taken)):
            taken += more
        before = len(getattr(master, "scans", []))
        join.step()
        assert len(master.scans) == before + 1
        assert taken == int((before + 1) * join.algorithm.split.w)
    assert {rows for _, rows, _ in master.scans} == {join.algorithm.split.b}
    assert len(master.scans) > 2 * join.algorithm.split.k


def test_meshjoin_waits_for_w_sales_unless_told_to_drain():
    master = even_keys(100)
    join = make("meshjoin", master, 1 << 20)
    assert join.algorithm.split.w > 2
    assert offer(join, 2, 3) == 2
    assert [join.step(), join.step()] == [[], []]
    assert (join.pending, "scan" in master.reads.by_kind) == (2, False)
    assert sum(len(piece.sales) for piece in join.step(drain=True)) == 2


def test_r_meshjoin_does_not_wait():
    join = make("r-meshjoin", even_keys(100), 1 << 20)
    offer(join, 2, 3)
    assert sum(len(piece.sales) for piece in join.step()) == 2


@both
def test_the_scan_goes_on_where_the_last_batch_stopped(name):
    master = even_keys(1_000)
    join = with_least_memory(name, master)
    assert join.algorithm.split.b < 400
    first = join.algorithm.split.b // 2 * 2
    drive(join, pa.array([first]))  # met in the first read: the batch ends in mid-cycle
    *_, stopped = master.scans[-1]
    assert stopped.position is not None
    drive(join, pa.array([1_998, 1]))
    assert master.scans[1][0] == stopped.position


@both
@pytest.mark.parametrize("start", [0, 500, 1_998])
def test_an_absent_sale_meets_every_row_exactly_once(name, start):
    master = even_keys(1_000)
    join = with_least_memory(name, master)
    drive(join, pa.array([start]))
    for _ in range(3):
        master.scans = []
        drive(join, pa.array([1]))
        assert Counter(master.keys_read) == Counter(range(0, 2_000, 2))


@both
@pytest.mark.parametrize("wait", [1, 2, 4])
@pytest.mark.parametrize(
    "changed",
    [
        range(0, 6_000, 2),
        range(-1_000, 2_000, 2),
        range(0, 2_000, 6),
        range(600, 2_000, 2),
        range(0, 1_000, 2),
        range(0),
    ],
    ids=["grows behind", "grows in front", "thins out", "loses its front", "loses its end", "is emptied"],
)
def test_the_cycle_ends_where_it_began_also_when_the_master_changes_meanwhile(name, changed, wait):
    master = even_keys(1_000)
    join = with_least_memory(name, master)
    drive(join, pa.array([2 * join.algorithm.split.b]))  # the next cycle begins in the middle
    throughout = set(range(0, 2_000, 2)) & set(changed)
    master.scans = []
    offer(join, 1, 3)
    for _ in range(wait):
        join.step(drain=True)
    master.replace(master_table(list(changed), "integers"))
    pieces = []
    while join.pending:
        pieces += join.step(drain=True)
        join.check()
        assert len(master.scans) < 200
    read = Counter(master.keys_read)
    assert max(read.values()) == 1
    assert throughout <= set(read)
    assert [sale for piece in pieces for sale in piece.sales] == [0, 1]
    assert all((piece.match == ABSENT).all() for piece in pieces)


@both
def test_sales_that_come_in_at_different_places_of_the_scan_each_meet_all_of_it(name):
    master = even_keys(1_000)
    join = with_least_memory(name, master)
    admitted: dict[int, int] = {}
    gone: dict[int, int] = {}
    for sale in range(40):
        while not offer(join, 2 * sale + 1, first=sale):
            note(join, master, gone)
        admitted[sale] = len(getattr(master, "scans", []))
        note(join, master, gone)
    while join.pending:
        note(join, master, gone)
    assert len(gone) == 40
    for sale, last in gone.items():
        met = Counter(key for *_, scan in master.scans[admitted[sale] : last] for key in scan.rows["key"].to_pylist())
        assert met == Counter(range(0, 2_000, 2))


def note(join, master, gone) -> None:
    for piece in join.step(drain=True):
        gone.update({int(sale): len(master.scans) for sale in piece.sales})


@both
@pytest.mark.parametrize("spare", [0, 3_000, 1 << 20])
def test_every_row_of_a_key_is_delivered_without_an_index(name, spare):
    random = np.random.default_rng(5)
    keys = random.integers(0, 300, 2_000)
    table = master_table(list(range(3_000)), "integers").set_column(0, "key", pa.array(random.integers(0, 250, 3_000)))
    master = MemoryMaster(table, unique=False)
    join = make(name, master, smallest_memory(Variant(name), master) + spare)
    sales = pa.array([None if key == 7 else int(key) for key in keys])
    assert answer(drive(join, sales, cuts=[1, 900])) == oracle(sales, master.table)


def test_a_matched_sale_keeps_its_place_in_meshjoin_and_frees_it_in_r_meshjoin():
    for name, held in (("meshjoin", 2), ("r-meshjoin", 1)):
        join = with_least_memory(name, even_keys(1_000))
        room = join.algorithm.split.h_S
        offer(join, 2, 1)
        [met] = join.step(drain=True)
        assert (met.sales.tolist(), join.pending) == ([0], 1)
        assert room - join.algorithm._waiting.room == held


@pytest.mark.parametrize("published", [False, True])
def test_r_meshjoin_spreads_its_slots_over_the_cycle(published):
    """Spent on the first reads they would leave the hash table half empty: each sale stays for half a cycle."""
    keys, master = thousands(rows=20_000, sales=200_000, skew=0.0, absent=0.0)
    settings = {"r-meshjoin": rmeshjoin.Settings(published=published)}
    join = make("r-meshjoin", master, 60_000, Options(settings=settings))
    assert join.algorithm.split.k > 2 * join.algorithm.split.slots
    offered = waiting = reads = 0
    while reads < 4 * join.algorithm.split.k:
        while taken := join.offer(np.arange(offered, offered + 2_000), keys.slice(offered % 190_000, 2_000)):
            offered += taken
        join.step()
        reads += 1
        waiting += join.pending * (reads > join.algorithm.split.k)
    assert waiting / (3 * join.algorithm.split.k) > 0.9 * join.algorithm.split.h_S


def asked(memory: int, stream: Stream | None = None, R: Relation = RELATION, b: int = 0) -> Question[meshjoin.Settings]:
    return Question(memory, R, stream or Stream(), UnitCosts(), meshjoin.Settings(b=b))


@pytest.mark.parametrize("memory", [1_000_000, 20_000_000, 200_000_000])
def test_the_models_best_disk_buffer_beats_its_neighbours(memory):
    chosen = cost.split(asked(memory))
    best = cost.service_rate(chosen, asked(memory))
    assert sum(chosen.bytes.values()) <= memory
    for factor, most in ((1 / 16, 0.9), (0.5, 1.005), (0.8, 1.005), (1.25, 1.005), (2, 1.005), (4, 0.99)):
        other = cost.divide(asked(memory), round(chosen.b * factor))
        assert other is None or cost.service_rate(other, asked(memory)) < best * most


def test_with_the_built_in_costs_the_default_disk_buffer_forgoes_at_most_7_percent_of_the_best_rate():
    default = reduced_cost.default_buffer(asked(0))
    for memory in (20_000_000, 40_000_000, 80_000_000, 160_000_000, 320_000_000):
        best = cost.service_rate(cost.split(asked(memory)), asked(memory))
        assert cost.service_rate(cost.divide(asked(memory), default), asked(memory)) > 0.93 * best
        assert reduced_cost.split(asked(memory)).b == default


@pytest.mark.parametrize("model", [cost, reduced_cost], ids=["meshjoin", "r-meshjoin"])
def test_a_disk_buffer_that_is_set_is_kept_and_the_least_memory_follows_from_it(model):
    for memory in (20_000_000, 200_000_000):
        assert model.split(asked(memory, b=5_000)).b == 5_000
    least = model.least(asked(0, b=5_000))
    assert least > model.least(asked(0))
    assert sum(model.split(asked(least, b=5_000)).bytes.values()) <= least


@pytest.mark.parametrize("published", [False, True])
@both
def test_sizes_that_are_set_are_kept_or_refused_with_what_they_need(name, published):
    master = even_keys(1_000)
    kind = {"meshjoin": meshjoin, "r-meshjoin": rmeshjoin}[name]

    def made(memory: int, **sizes: int) -> Join:
        return make(name, master, memory, Options(settings={name: kind.Settings(published=published, **sizes)}))

    split = made(200_000, b=100, w=30, k=5).algorithm.split
    assert (split.b, split.k, split.slots, split.w, split.h_S) == (100, 11, 5, 30, 150)
    split = made(200_000, w=30, b=100).algorithm.split
    assert (split.slots, split.w) == (11, 30)
    assert made(200_000, b=100, k=3).algorithm.split.slots == 3
    with pytest.raises(BudgetTooSmall, match=r"with b = 100, w = 600.* it can do with [\d,]+\.$") as refusal:
        made(200_000, b=100, w=600)
    needed = int(re.search(r"at least ([\d,]+) bytes", str(refusal.value))[1].replace(",", ""))
    join = made(needed, b=100, w=600)
    assert (join.algorithm.split.b, join.algorithm.split.h_S) == (100, 6_600)
    with pytest.raises(BudgetTooSmall):
        made(needed - 1, b=100, w=600)
    if not published:  # else sales that are served stay pending: see test_as_published
        drive(join, pa.array(range(2_000)))


@both
def test_with_w_set_no_segment_is_longer(name):
    master = even_keys(1_000)
    kind = {"meshjoin": meshjoin, "r-meshjoin": rmeshjoin}[name]
    join = make(name, master, 200_000, Options(settings={name: kind.Settings(b=100, w=30)}))
    keys, taken, reads = pa.array(range(2_000)), 0, 0
    while taken < 600:
        taken += (some := offer(join, *keys[taken:].to_pylist(), first=taken))
        join.step()
        reads += 1
        assert 0 < some <= 30
    assert reads == 20


def test_with_too_little_memory_the_model_answers_as_for_the_least():
    least = cost.least(asked(0))
    assert cost.divide(asked(least - 1), cost.split(asked(least)).b) is None
    assert cost.predict(asked(1)).mu == cost.predict(asked(least)).mu


def test_windows_after_which_nothing_may_be_pending_cost_a_cycle_each():
    rates = [cost.predict(asked(20_000_000, Stream(batch=n))).mu for n in (1_000, 100_000, 10_000_000, float("inf"))]
    assert rates == sorted(rates)
    assert rates[2] == pytest.approx(rates[3], rel=0.05)
    assert rates[0] < rates[3] / 50


@pytest.mark.parametrize("unique", [True, False], ids=["unique", "with keys that repeat"])
@both
def test_the_model_foresees_the_number_of_reads(name, unique):
    """Where keys repeat a sale stays for a whole cycle in r-meshjoin too: so it takes twice as many."""
    keys, plain = thousands(rows=20_000, sales=30_000, skew=0.0, absent=0.0)
    master = Scanned(plain.table, unique=unique)
    join = make(name, master, 200_000)
    drive(join, keys, cuts=[10_000, 20_000])
    question = replace(join.algorithm.question, stream=Stream(batch=10_000))
    foreseen = join.algorithm.model.predict(question)
    assert foreseen.queries / foreseen.mu * len(keys) == pytest.approx(len(master.scans), rel=0.2)


@both
def test_the_model_foresees_the_iterations_that_the_results_of_one_read_take(name):
    """A hundred rows a key: what a read brings out is more than there is room for at once."""
    keys = np.repeat(np.arange(20), 100)
    table = master_table(list(range(len(keys))), "integers").set_column(0, "key", pa.array(keys))
    master = Scanned(table, unique=False)
    settings = {"meshjoin": meshjoin.Settings(b=200), "r-meshjoin": rmeshjoin.Settings(b=200)}
    stream = Stream(batch=2_000, results=Results(keys=(20.0,), p=(1 / 20,), rows=(100.0,)))
    join = make(name, master, 60_000, Options(stream=stream, settings=settings))
    drive(join, pa.array(np.random.default_rng(3).integers(0, 20, 2_000)))
    foreseen = join.algorithm.model.predict(replace(join.algorithm.question, costs=NOTHING_BUT_THE_LOOP))
    iterations = join.statistics.steps
    assert iterations > 3 * len(master.scans)
    assert 2_000 / foreseen.mu == pytest.approx(iterations, rel=0.2)
