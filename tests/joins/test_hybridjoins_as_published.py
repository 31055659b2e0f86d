"""HYBRIDJOIN and X-HYBRIDJOIN beside their pseudocode: the same pages in the same order, the same sales."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from pipeline.bench.charged.machines import ACCOUNTINGS, MACHINES, Machine, processor
from pipeline.bench.charged.trial import Trial
from pipeline.errors import BadSetting
from pipeline.joins import Join, Options, hybridjoin, make, xhybridjoin
from pipeline.joins.cost.question import Stream
from pipeline.master.computed import ComputedRows
from pipeline.master.disks import Disk
from pipeline.master.memory import MemoryMaster
from tests.joins.harness import answer, drive, oracle
from tests.joins.workloads import master_table

ROWS, D = 1_000, 40


class Watched(MemoryMaster):
    """Knows what was read: for each page its first key, and the keys that were asked for by name."""

    def __init__(self, rows: int = ROWS) -> None:
        super().__init__(master_table(list(range(rows)), "integers"))
        self.pages: list[int] = []
        self.named: list[list[int]] = []
        self.most: list[int] = []

    def page(self, first, until, rows, also=None):
        self.pages.append(first or 0)
        self.named.append([] if also is None else also.to_pylist())
        self.most.append(rows)
        return super().page(first, until, rows, also)


def sales(number: int, skew: float = 1.0, absent: float = 0.0, seed: int = 3) -> list[int]:
    """By Zipf's law over R sorted by how much its rows are wanted; absent keys lie behind R."""
    random = np.random.default_rng(seed)
    weights = 1.0 / np.arange(1, ROWS + 1) ** skew
    ranks = random.choice(ROWS, number, p=weights / weights.sum())
    return np.where(random.random(number) < absent, ROWS + ranks, ranks).tolist()


def make_published(master: MemoryMaster, memory: int = 40_000, **settings: object) -> Join:
    of = {"x-hybridjoin": xhybridjoin.Settings(published=True, d=D, **settings)} if settings else {}
    name = "x-hybridjoin" if settings else "hybridjoin"
    of = of or {"hybridjoin": hybridjoin.Settings(published=True, d=D)}
    return make(name, master, memory, Options(settings=of, stream=Stream(e=1.0, batch=5_000)))


def run(join: Join, keys: list[int]) -> list[tuple[int, int]]:
    """What the loop read and served in each iteration; sales always wait."""
    rounds, offered, every = [], 0, pa.array(keys)
    while offered < len(keys) or join.pending:
        before = offered
        while offered < len(keys) and (taken := join.offer(np.arange(offered, len(keys)), every.slice(offered))):
            offered += taken
        pieces = join.step()
        rounds.append((offered - before, sum(len(piece.sales) for piece in pieces)))
        join.check()
    return rounds


def figure_5(keys: list[int], h_S: int, first_part: int = 0) -> tuple[list[int], list[tuple[int, int]], int]:
    """The pseudocode of both papers (first_part = 0: HYBRIDJOIN), over pages of D rows; nothing of ours in it."""
    pages, rounds, by_first_part = [], [], 0
    stream, queue, w = iter(keys), list[int](), h_S
    left = len(keys)
    while left or queue:
        read = min(w, left)
        queue += [next(stream) for _ in range(read)]
        left, w = left - read, w - read
        stay = [key for key in queue if key >= first_part]
        matched = len(queue) - len(stay)
        by_first_part += matched
        if stay:
            page = min(stay[0], ROWS - 1) // D  # an absent key would lie behind the last row
            pages.append(D * page)
            # The page's rows; of an absent key only the oldest sale's own is asked for.
            gone = {stay[0], *range(D * page, min(ROWS, D * page + D))}
            matched += sum(key in gone for key in stay)
            stay = [key for key in stay if key not in gone]
        queue, w = stay, w + matched
        rounds.append((read, matched))
    return pages, rounds, by_first_part


@pytest.mark.parametrize("absent", [0.0, 0.2])
@pytest.mark.parametrize("skew", [0.0, 1.0])
def test_hybridjoin_reads_the_pages_of_figure_5_and_takes_as_many_sales_as_left(skew, absent):
    master, keys = Watched(), sales(5_000, skew, absent)
    join = make_published(master)
    h_S = join.algorithm.split.h_S
    assert 5 * h_S < len(keys)
    rounds = run(join, keys)
    pages, expected, _ = figure_5(keys, h_S)
    assert rounds == expected
    assert master.pages == pages


def test_hybridjoin_asks_by_name_for_nobody_but_the_oldest():
    master = Watched()
    run(make_published(master), sales(5_000, absent=0.3))
    assert all(len(named) == 1 for named in master.named)
    assert "lookup" not in master.reads.by_kind
    as_improved = Watched()
    run(make("hybridjoin", as_improved, 40_000), sales(5_000, absent=0.3))
    assert max(map(len, as_improved.named)) > 1
    assert len(as_improved.pages) < len(master.pages) / 2


@pytest.mark.parametrize("stays", [{"l": 0}, {"l": 1}, {"l": 3}, {"d_N": 10}, {"d_N": 110}])
def test_x_hybridjoin_reads_the_pages_of_algorithm_1_and_its_first_part_serves_as_many(stays):
    master, keys = Watched(), sales(5_000)
    join = make_published(master, **stays)
    d_N = stays.get("d_N", stays.get("l", 0) * D)
    rounds = run(join, keys)
    pages, expected, by_first_part = figure_5(keys, join.algorithm.split.h_S, d_N)
    assert rounds == expected
    once = [0] if d_N else []  # line 1: the first part, in one piece
    assert master.pages == once + pages
    assert master.most[0] == (d_N or 2 * D)
    assert (join.statistics.hits, join.statistics.hits + join.statistics.misses) == (by_first_part, len(keys))
    assert join.statistics.probed == d_N * len(rounds)


def test_every_row_that_stays_is_charged_in_every_iteration_and_every_sale_as_one_that_waits():
    machine = Machine(
        Disk(request=1.0, seek=1.0, byte=0.0), processor(c_S=1e-3, c_A=2e-3, c_E=3e-3, c_H=1e-4, c_O=4e-3)
    )
    settings = {"x-hybridjoin": xhybridjoin.Settings(published=True, d=50, l=2)}
    trial = Trial("x-hybridjoin", ComputedRows(1_000), 120_000, machine, settings=settings)
    trial.warm_up()
    seen = trial.measure(sales=2_000)
    reads = seen.reads.by_kind["page"].queries
    assert seen.hits > seen.sales / 3
    # Equation 5: c_IO(d_S) + (d_N + d_S) c_H + w (c_O + c_E + c_S + c_A)
    equation = reads * (1.0 + (100 + 50) * 1e-4) + seen.admitted * 6e-3 + seen.sales * 4e-3
    assert seen.seconds == pytest.approx(equation, rel=1e-3)


@pytest.mark.parametrize("scattered", [False, True])
@pytest.mark.parametrize(("d", "d_N"), [(2_000, 200), (2_000, 2_900), (500, 5_000)])
def test_the_model_knows_a_first_part_that_ends_within_a_page(d, d_N, scattered):
    paper = "x-hybridjoin-kais2013"
    settings = {"x-hybridjoin": xhybridjoin.Settings(published=True, d=d, d_N=d_N)}
    rows, counted = ComputedRows(50_000, scattered=scattered), ACCOUNTINGS[paper]
    trial = Trial("x-hybridjoin", rows, 2_000_000, MACHINES[paper], settings=settings, accounting=counted)
    trial.warm_up(sales=150_000, sales_a_cached_row=0)
    assert trial.prediction.mu == pytest.approx(trial.measure(sales=150_000).rate, rel=0.1)


def test_the_first_part_is_read_again_when_it_is_too_old_and_served_with_what_changed():
    class Clock:
        now = 0.0

        def __call__(self) -> float:
            return self.now

    clock, master = Clock(), Watched()
    options = Options(
        settings={"x-hybridjoin": xhybridjoin.Settings(published=True, d=D, l=1)}, clock=clock, max_staleness=60.0
    )
    join = make("x-hybridjoin", master, 40_000, options)
    keys = pa.array(sales(500))
    assert answer(drive(join, keys)) == oracle(keys, master.table)
    changed = master_table(list(range(ROWS)), "integers")
    changed = changed.set_column(1, "surrogate_key", pa.array(range(7, ROWS + 7), pa.int64()))
    master.replace(changed)
    clock.now = 59.0
    assert answer(drive(join, keys)) != oracle(keys, changed)
    join.changed(pa.array([0, 1]))
    two = pa.array([0, 1])
    assert answer(drive(join, two)) == oracle(two, changed)
    clock.now = 60.0
    assert answer(drive(join, keys)) == oracle(keys, changed)


def test_rows_that_stay_are_no_pages_unless_published():
    for settings in ({"d_N": 5}, {"d_N": 5, "l": 1, "published": True}):
        with pytest.raises(BadSetting, match="d_N = 5 rows stay: this needs published = true, and no l"):
            xhybridjoin.Settings(**settings)
