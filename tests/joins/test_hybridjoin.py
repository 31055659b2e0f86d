"""HYBRIDJOIN reads no page more often than its theorems allow, and its cost model knows how often."""

import itertools
import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from pipeline.errors import NotUnique
from pipeline.joins import Join, hybridjoin, make, xhybridjoin
from pipeline.joins.cost import hybridjoin as cost
from pipeline.joins.cost import xhybridjoin as resident_cost
from pipeline.joins.cost.question import Question, Stream
from pipeline.joins.cost.unit_costs import UnitCosts
from pipeline.master.memory import MemoryMaster
from tests.joins.harness import answer, drive, oracle
from tests.joins.workloads import master_table, thousands

SKEWS = [0.0, 0.5, 1.0, 1.5]
both = pytest.mark.parametrize("name", ["hybridjoin", "x-hybridjoin"])


class CountingMaster(MemoryMaster):
    """Knows how often each page was read."""

    def __init__(self, table: pa.Table) -> None:
        super().__init__(table)
        self.pages_read: Counter[object] = Counter()

    def page(self, first, until, rows, also=None):
        self.pages_read[first] += 1
        return super().page(first, until, rows, also)


def with_full_queue(join: Join, keys: pa.Array) -> int:
    """Serve the sales, filling H and Q to their capacity before each step as the papers do; the steps it took."""
    offered = steps = 0
    while offered < len(keys) or join.pending:
        taken = 1
        while taken and offered < len(keys):
            taken = join.offer(np.arange(offered, len(keys)), keys.slice(offered))
            offered += taken
        join.step(drain=offered == len(keys))
        steps += 1
    return steps


def busy(skew: float, sales: int, absent: float = 0.0, rows: int = 4_000) -> tuple[pa.Array, CountingMaster]:
    keys, plain = thousands(rows, sales, skew, absent=absent)
    return keys, CountingMaster(plain.table)


@both
@pytest.mark.parametrize("skew", SKEWS)
@pytest.mark.parametrize("absent", [0.0, 0.3])
def test_no_page_is_read_twice_while_a_full_queue_of_sales_comes(name, skew, absent):
    keys, master = busy(skew, sales=5_000, absent=absent)
    join = make(name, master, 60_000)
    h_S = join.algorithm.split.h_S
    assert len(keys) > 4 * h_S, "the queue must fill several times for the theorem to say something"
    with_full_queue(join, keys)
    # MESHJOIN with the same queue reads every page once for every h_S sales.
    meshjoin = math.ceil(len(keys) / h_S)
    assert max(master.pages_read.values()) <= meshjoin
    assert master.pages_read.total() <= meshjoin * math.ceil(4_000 / join.algorithm.split.d)


@both
@pytest.mark.parametrize("skew", SKEWS)
@pytest.mark.parametrize("memory", [14_000, 60_000, 1 << 20])
def test_there_is_never_more_than_one_read_a_sale(name, skew, memory):
    keys, master = busy(skew, sales=1_500, absent=0.2, rows=1_000)
    join = make(name, master, memory)
    steps = with_full_queue(join, keys)
    reads = master.pages_read.total() + master.reads.by_kind["lookup"].queries
    assert reads <= steps <= len(keys)


def test_pages_that_nobody_wants_are_not_read():
    _, master = busy(0.0, sales=0)
    keys = pa.array([2 * row for row in range(100)] * 5)
    join = make("hybridjoin", master, 60_000)
    with_full_queue(join, keys)
    assert len(master.pages_read) <= 1 + 100 // join.algorithm.split.d + 1


def test_a_step_needs_no_input_from_the_stream():
    keys, master = busy(0.5, sales=500)
    join = make("hybridjoin", master, 60_000)
    taken = join.offer(np.arange(500), keys)
    waiting = [join.pending]
    while join.pending:
        assert join.step()
        waiting.append(join.pending)
    assert waiting[0] == taken
    assert all(later < before for before, later in itertools.pairwise(waiting))


def test_an_absent_key_at_the_head_of_the_queue_leaves_with_its_page():
    _, master = busy(0.0, sales=0)
    join = make("hybridjoin", master, 60_000)
    join.offer(np.arange(1), pa.array([4_001]))
    [served] = join.step()
    assert served.match.tolist() == [-1]
    assert join.pending == 0
    assert master.pages_read.total() == 1


@both
def test_many_absent_keys_of_one_page_do_not_cost_a_read_of_it_each(name):
    _, master = busy(0.0, sales=0)
    join = make(name, master, 60_000)
    join.offer(np.arange(20), pa.array([2 * row + 1 for row in range(20)]))
    while join.pending:
        join.step()
    assert max(master.pages_read.values()) == 1
    assert master.pages_read.total() <= 1 + 20 // join.algorithm.split.d + 1
    assert join.statistics.unmatched == 20


@both
def test_a_table_that_grows_tenfold_is_joined_on_with_more_pages(name):
    keys, grown = busy(0.3, sales=3_000)
    master = CountingMaster(grown.table.slice(0, 400))
    join = make(name, master, 100_000)
    drive(join, keys.slice(0, 100))
    before = join.algorithm._pages.pages
    master.replace(grown.table)
    assert answer(drive(join, keys)) == oracle(keys, grown.table)
    assert join.algorithm._pages.pages > before


def test_the_directory_follows_a_table_that_grows_while_the_stream_never_pauses():
    """Some sale always waits: the directory is read again all the same, and waiting keys find their new pages."""
    keys, grown = busy(0.0, sales=12_000)
    master = CountingMaster(grown.table.slice(0, 200))
    join = make("hybridjoin", master, 60_000)
    offered, pages, served = 0, [], []
    while offered < len(keys):
        while taken := join.offer(np.arange(offered, len(keys)), keys.slice(offered)):
            offered += taken
        pages.append(join.algorithm._pages.generation)
        served += join.step()
        assert join.pending or offered == len(keys)
        if len(pages) == 5:
            master.replace(grown.table)
    while join.pending:
        served += join.step(drain=True)
    assert pages[-1] > pages[4]
    late = [piece for piece in served if len(piece.sales) and piece.sales.min() > 5_000]
    wanted = oracle(keys, grown.table)
    assert all(pair in wanted for pair in answer(late))


def test_a_table_that_loses_most_rows_is_joined_on():
    keys, master = busy(0.3, sales=2_000)
    join = make("hybridjoin", master, 100_000)
    drive(join, keys.slice(0, 100))
    left = master.table.take(pa.array(np.arange(0, 4_000, 9)))
    master.replace(left)
    assert answer(drive(join, keys)) == oracle(keys, left)


class Unpredictable(MemoryMaster):
    """Its index sorts by rules that `order` does not know."""

    def order(self, keys):
        return np.array([key[::-1].ljust(32, b"\0") for key in keys.to_pylist()], "S32")


@both
def test_an_order_that_cannot_be_guessed_changes_no_answer(name):
    master = Unpredictable(master_table([f"{number:03}" for number in range(300)], "texts"))
    random = np.random.default_rng(5)
    keys = pa.array([b"%03d" % number for number in random.integers(0, 400, 2_000)], pa.binary())
    assert answer(drive(make(name, master, 40_000), keys, cuts=[3, 1_000])) == oracle(keys, master.table)


@both
def test_a_master_without_a_unique_index_is_refused(name):
    master = MemoryMaster(master_table([1, 2], "integers"), unique=False)
    with pytest.raises(NotUnique, match=name):
        make(name, master, 1 << 20)


@pytest.mark.parametrize("skew", SKEWS[:3])
@pytest.mark.parametrize(("memory", "sales"), [(60_000, 300), (60_000, 900), (60_000, 12_000), (150_000, 4_000)])
def test_the_model_knows_the_reads_of_a_window_within_a_tenth(skew, memory, sales):
    keys, master = busy(skew, sales)
    join = make("hybridjoin", master, memory)
    with_full_queue(join, keys)
    predicted = cost.load(join.algorithm.split, join.relation, Stream(e=skew, batch=sales))
    assert predicted.reads == pytest.approx(master.pages_read.total(), rel=0.1)
    assert predicted.w == pytest.approx(sales / master.pages_read.total(), rel=0.1)


def test_with_equal_shares_the_model_is_the_papers_equation_for_w():
    _, master = busy(0.0, sales=0, rows=20_000)
    join = make("hybridjoin", master, 1 << 20)
    w = cost.load(join.algorithm.split, join.relation, Stream(e=0.0, batch=10**9)).w
    in_proportion = join.algorithm.split.h_S * join.algorithm.split.d / 20_000
    assert w == pytest.approx(2 * in_proportion + 1, rel=0.1)


MODELS = [(cost, hybridjoin.Settings), (resident_cost, xhybridjoin.Settings)]


@pytest.mark.parametrize(("model", "settings"), MODELS, ids=["hybridjoin", "x-hybridjoin"])
@pytest.mark.parametrize("memory", [100_000, 1 << 20, 1 << 23])
def test_no_other_page_size_that_fits_is_predicted_to_be_faster(model, settings, memory):
    _, master = busy(0.0, sales=0, rows=20_000)
    relation = make("hybridjoin", master, 1 << 20).relation
    question = Question(memory, relation, Stream(), UnitCosts(), settings())
    chosen = model.split(question)
    used = cost.page_bytes(chosen.d, question) + cost.directory_bytes(chosen.d, relation)
    used += cost.resident_bytes(chosen.d, chosen.l, question) + cost.sale_bytes(chosen.h_S, question)
    assert used <= memory
    best = model.predict(question).mu
    for d in {1, 10, 100, 1_000, chosen.d // 2, chosen.d * 2} - {0}:
        for l in {1, chosen.l // 2 + 1, chosen.l * 2} if model is resident_cost else {0}:  # noqa: E741
            fixed = cost.page_bytes(d, question) + cost.directory_bytes(d, relation)
            left = memory - fixed - cost.resident_bytes(d, l, question)
            h_S = next((h for h in (200_000 >> step for step in range(18)) if cost.sale_bytes(h, question) <= left), 0)
            if h_S:
                other = cost.rate(cost.Split(d, h_S, l), question)
                assert other <= best * 1.05, (d, l, h_S, chosen)


@pytest.mark.parametrize(("model", "settings"), MODELS, ids=["hybridjoin", "x-hybridjoin"])
def test_a_page_size_that_is_set_is_kept(model, settings):
    _, master = busy(0.0, sales=0, rows=20_000)
    relation = make("hybridjoin", master, 1 << 20).relation
    question = Question(1 << 20, relation, Stream(), UnitCosts(), settings(d=77))
    assert model.split(question).d == 77
    least = model.least(question)
    assert model.split(replace(question, memory=least)) == cost.Split(77, 1)


def test_the_pages_that_stay_are_as_many_as_are_set():
    _, master = busy(0.0, sales=0, rows=20_000)
    relation = make("hybridjoin", master, 1 << 20).relation
    for l in (0, 1, 9):  # noqa: E741
        question = Question(1 << 20, relation, Stream(), UnitCosts(), xhybridjoin.Settings(l=l))
        assert resident_cost.split(question).l == l
