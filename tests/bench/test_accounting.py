"""Memory counted as each paper counts it: then its M holds here, to the sale and to the row, what its equations say."""

import math

import pytest

from pipeline import joins
from pipeline.bench.charged.machines import ACCOUNTINGS, MACHINES
from pipeline.bench.charged.trial import Trial
from pipeline.errors import BudgetTooSmall
from pipeline.joins.cost import frontstage
from pipeline.joins.hybridjoin import Settings as OfHybridJoin
from pipeline.joins.meshjoin import Settings as OfMeshJoin
from pipeline.joins.published import cmeshjoin, hybridjoin, meshjoin, xhybridjoin
from pipeline.joins.xhybridjoin import Settings as OfXHybridJoin
from pipeline.master.computed import ComputedRows


def trial(name: str, paper: str, rows: int, memory: float, **settings: object) -> Trial:
    return Trial(
        name, ComputedRows(rows), int(memory), MACHINES[paper], settings=settings, accounting=ACCOUNTINGS[paper]
    )


@pytest.mark.parametrize("b", [1_000, 7_750, 33_333, 158_333])
@pytest.mark.parametrize("memory", [20e6, 80e6])
def test_meshjoin_holds_the_sales_of_equation_1(b, memory):
    paper = "meshjoin-default-vs-optimal-2010"
    split = trial("meshjoin", paper, 3_500_000, memory, meshjoin=OfMeshJoin(b=b)).join.algorithm.split
    k = meshjoin.DEF2010.n_R / b
    assert (split.b, split.h_S) == (b, int(k * meshjoin.w_within(memory, b, meshjoin.DEF2010)))
    assert split.slots == math.floor(k) + 1


@pytest.mark.parametrize("memory", [20e6, 40e6, 80e6, 160e6, 320e6])
def test_the_best_disk_buffer_is_that_of_the_paper_of_2010(memory):
    """0.93, 1.33, 1.88, 2.63 MB, and 3.61: R's end takes whole reads, so b goes from one number of them to the next."""
    paper = "meshjoin-default-vs-optimal-2010"
    costs = MACHINES[paper].as_published()
    best = meshjoin.fastest(memory, meshjoin.DEF2010, costs)
    assert trial("meshjoin", paper, 3_500_000, memory).join.algorithm.split.b == pytest.approx(best, rel=0.01)


@pytest.mark.parametrize("d", [1, 125, 2_000])
def test_hybridjoin_holds_the_sales_of_its_equation_1(d):
    split = trial("hybridjoin", "hybridjoin-2011", 100_000, 5e6, hybridjoin=OfHybridJoin(d=d)).join.algorithm.split
    paper = hybridjoin.Setting(M=5e6, R_t=100_000, v_R=120, v_S=20, node=12, page=d)
    assert (split.d, split.h_S) == (d, int(hybridjoin.H_t(d * 120, paper)))


@pytest.mark.parametrize(("d", "l"), [(125, 1), (125, 40), (2_000, 3)])
def test_x_hybridjoin_holds_the_sales_of_its_equation_4(d, l):  # noqa: E741
    settings = OfXHybridJoin(d=d, l=l)
    split = trial(
        "x-hybridjoin", "x-hybridjoin-kais2013", 100_000, 5e6, **{"x-hybridjoin": settings}
    ).join.algorithm.split
    paper = xhybridjoin.Setting(M=5e6, R_t=100_000, v_R=120, v_S=20, node=12, v_P=d * 120, l=l)
    assert (split.d, split.l, split.h_S) == (d, l, int(xhybridjoin.h_S(paper)))


def test_a_cached_row_takes_its_bytes_and_eight():
    join = trial("cmeshjoin", "cmeshjoin-cikm2013", 100_000, 2e6).join
    split = join.algorithm.split
    assert split.behind + split.cache == 2_000_000
    assert split.h_R == join.algorithm.cache.capacity == split.cache // (cmeshjoin.SLOT + 120)
    question = join.workplace.question
    behind = frontstage.behind(split, question)
    assert (behind.memory, behind.accounting) == (split.behind, question.accounting)


@pytest.mark.parametrize("name", joins.JOINS)
def test_every_join_works_also_where_it_takes_more_than_is_counted(name):
    run = trial(name, "hybridjoin-2011", 20_000, 400_000)
    run.measure(sales=5_000)
    run.join.check()
    taken = sum(run.join.memory_used().values())
    assert taken > 400_000 or name not in ("meshjoin", "hybridjoin", "x-hybridjoin")


def test_look_ups_and_auto_count_their_sales_and_rows_alike():
    M, paper = 400_000, "hybridjoin-2011"
    looks_up = trial("inlj", paper, 20_000, M).join.algorithm.split
    assert 0 <= M - looks_up.rows * 120 - looks_up.h_S * 32 < 32
    auto = trial("auto", paper, 20_000, M).join.algorithm
    fetch = auto.inner.split
    assert auto.split.h_R == auto.split.cache // (8 + 120)
    assert 0 <= auto.split.behind - fetch.answers - fetch.h_S * 32 < 32


def test_what_is_too_little_is_told_as_it_is_counted():
    rows, memory = ComputedRows(3_500_000), 1_000
    paper = "meshjoin-default-vs-optimal-2010"
    with pytest.raises(BudgetTooSmall, match=r"needs ([\d,]+)\.") as refusal:
        Trial("meshjoin", rows, memory, MACHINES[paper], accounting=ACCOUNTINGS[paper])
    needed = int(str(refusal.value).split("needs ")[1].split(".")[0].replace(",", ""))
    # One sale a read takes 100 bytes in H and Q, and one more in the stream buffer: b v_R + R_t / b * 100 is least at
    # b = sqrt(R_t * 100 / 120).
    b = math.sqrt(3_500_000 * 100 / 120)
    assert needed == pytest.approx(120 * b + 3_500_000 / b * 100 + 20, rel=0.001)
    assert Trial("meshjoin", rows, needed, MACHINES[paper], accounting=ACCOUNTINGS[paper]).join.algorithm.split.h_S
