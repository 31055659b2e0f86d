"""Our cost models beside the papers' equations: with equal costs and memory, what is the same and what is not."""

from dataclasses import replace

import numpy as np
import pytest

from pipeline.joins.cost import frontstage as our_frontstage
from pipeline.joins.cost import hybridjoin as our_hybridjoin
from pipeline.joins.cost import meshjoin as our_meshjoin
from pipeline.joins.cost import rmeshjoin as our_rmeshjoin
from pipeline.joins.cost.accounting import AsPublished
from pipeline.joins.cost.question import Question, Relation, Stream
from pipeline.joins.cost.unit_costs import Line
from pipeline.joins.cost.unit_costs import UnitCosts as OurUnitCosts
from pipeline.joins.hybridjoin import Settings as HybridSettings
from pipeline.joins.meshjoin import Settings
from pipeline.joins.published import cmeshjoin, hybridjoin, meshjoin, xhybridjoin
from pipeline.joins.published.unit_costs import Disk, UnitCosts

MB = 1_000_000
ENDLESS = 10**12


# Our model of MESHJOIN beside theirs: the same disk, nothing else that costs, and memory counted as theirs counts it.

SAME_COSTS = OurUnitCosts(
    scan=Line(meshjoin.SEEK * 1e-8, 120e-8), loop=0.0, c_S=0.0, c_A=0.0, c_E=0.0, c_H=0.0, c_O=0.0
)
SAME_R = Relation(R_t=3_500_000, v_R=120, words=1, row_bytes=272)
AS_THEY_COUNT = AsPublished(v_S=20, f=4.8, pointer=4, copied=True)


def asked(memory: float) -> Question[Settings]:
    return Question(int(memory), SAME_R, Stream(batch=ENDLESS), SAME_COSTS, Settings(), accounting=AS_THEY_COUNT)


def ours(memory: float, b: float) -> float:
    split = our_meshjoin.divide(asked(memory), round(b))
    return our_meshjoin.service_rate(split, asked(memory)) if split else 0.0


def theirs(memory: float, b: float) -> float:
    return meshjoin.mu_within(memory, b, meshjoin.DEF2010, meshjoin.DEF2010_COSTS)


def best_of_theirs(memory: float) -> int:
    return meshjoin.fastest(memory, meshjoin.DEF2010, meshjoin.DEF2010_COSTS)


@pytest.mark.parametrize("memory", [20, 40, 80, 160, 320])
def test_with_equal_costs_and_memory_our_rate_is_the_published_one(memory):
    M, best = memory * MB, best_of_theirs(memory * MB)
    for b in np.geomspace(best / 4, best * 4, 50).astype(int).tolist():
        split = our_meshjoin.divide(asked(M), b)
        mean = SAME_R.R_t / split.k  # rows of a read: R's end comes before the last buffer is full
        assert ours(M, b) == pytest.approx(theirs(M - (b - mean) * 120, mean), rel=3e-4)


@pytest.mark.parametrize("memory", [20, 40, 80, 160, 320])
def test_our_best_disk_buffer_is_the_published_one_and_no_other_is_better(memory):
    M, best = memory * MB, best_of_theirs(memory * MB)
    chosen = our_meshjoin.split(asked(M)).b
    assert chosen == pytest.approx(best, rel=0.01)
    highest = max(ours(M, b) for b in np.geomspace(best / 2, best * 2, 2_000))
    assert ours(M, chosen) > (1 - 1e-5) * highest


@pytest.mark.parametrize(("memory", "printed"), [(20, 0), (40, 0.4), (80, 1.17), (160, 1.78)])
def test_by_our_model_too_the_default_disk_buffer_loses_about_what_the_paper_says_it_loses(memory, printed):
    M = memory * MB
    highest = ours(M, our_meshjoin.split(asked(M)).b)
    default = our_rmeshjoin.split(asked(M)).b
    assert default * 120 == pytest.approx(meshjoin.DEFAULT_BUFFER, rel=0.01)
    assert 100 * (1 - ours(M, default) / highest) == pytest.approx(printed, abs=0.5)


def test_by_our_model_too_the_default_disk_buffer_loses_less_than_three_in_a_hundred_at_320_mb():
    M = 320 * MB
    assert ours(M, our_rmeshjoin.split(asked(M)).b) > 0.97 * ours(M, our_meshjoin.split(asked(M)).b)


# HYBRIDJOIN and X-HYBRIDJOIN: 2 M rows, an endless stream

R = Relation(R_t=2_000_000, v_R=120, words=1, row_bytes=120)
COSTS = UnitCosts(c_IO=Disk(0.005, 11e-9), c_E=1e-6, c_S=2e-6, c_A=3e-6, c_H=4e-7, c_O=5e-7)
OURS = OurUnitCosts(
    page=Line(0.005, 120 * 11e-9),
    lookup=Line(0.0, 0.0),
    loop=0.0,
    c_E=1e-6,
    c_S=2e-6,
    c_A=3e-6,
    c_H=4e-7,
    c_O=5e-7,
    c_F=7e-7,
)


def scattered(e: float, costs: OurUnitCosts = OURS) -> Question[HybridSettings]:
    return Question(50 * MB, R, Stream(e=e, batch=ENDLESS), costs, HybridSettings())


@pytest.mark.parametrize("e", [0.0, 0.5, 1.0])
@pytest.mark.parametrize(("d", "h_S"), [(125, 1_562_031), (1_000, 100_000), (10_000, 1_000_000)])
def test_on_a_scattered_r_a_read_serves_twice_meshjoins_sales_where_the_paper_fits_136_hundredths(e, d, h_S):
    # A page wanted with share q is read every T + 1 / q sales and then serves 1 + q T. With many sales a page those
    # that wait for it have come evenly in the last T, so h_S = T / 2: w = T d / R_t = 2 h_S d / R_t.
    question = scattered(e)
    w = our_hybridjoin.load(our_hybridjoin.Split(d, h_S), R, question.stream).w
    assert w == pytest.approx(2 * hybridjoin.w_of_meshjoin(h_S, d, R.R_t), rel=0.02)
    assert w / hybridjoin.w(h_S, d, R.R_t) == pytest.approx(2 / 1.36, rel=0.02)


def test_an_iteration_of_our_hybridjoin_costs_equation_3_and_a_key_by_name_and_the_loop():
    parts = our_hybridjoin.Split(1_000, 100_000)
    w = our_hybridjoin.load(parts, R, scattered(1.0).stream).w
    published = hybridjoin.c_loop(1_000 * 120, w, hybridjoin.HYBRIDJOIN2011, COSTS)
    assert our_hybridjoin.rate(parts, scattered(1.0)) == pytest.approx(w / published)
    dearer = replace(OURS, lookup=Line(0.5, 0.001), loop=0.002)
    assert our_hybridjoin.rate(parts, scattered(1.0, dearer)) == pytest.approx(w / (published + 0.001 + 0.002))


@pytest.mark.parametrize("resident", [1, 8, 200])
def test_what_stays_multiplies_the_sales_of_a_read_as_equation_9_does_with_the_mean(resident):
    parts = our_hybridjoin.Split(1_000, 1_000_000, resident)
    load = our_hybridjoin.load(parts, R, scattered(1.0).stream)
    p_N, n = load.hits / load.sales, R.R_t / 1_000 - resident
    p_new = p_N + (1 - p_N) / n  # equation 8, with the share that our pages of a scattered R have
    assert load.w == pytest.approx(2 * (1_000_000 / n) / (1 + 1 / n - p_new), rel=0.02)  # 2 for 1: see above


def test_an_iteration_of_our_x_hybridjoin_costs_equation_5_but_for_what_hits_save_and_how_they_are_found():
    parts = our_hybridjoin.Split(1_000, 100_000, 8)
    load = our_hybridjoin.load(parts, R, scattered(1.0).stream)
    setting = replace(xhybridjoin.KAIS2013, v_P=1_000 * 120, k=1, l=8)
    hits = load.w * load.hits / load.sales
    cost = xhybridjoin.c_loop(load.w, setting, COSTS) - 8_000 * COSTS.c_H + load.w * OURS.c_F
    cost -= hits * (COSTS.c_A + COSTS.c_E)  # they never enter H
    assert our_hybridjoin.rate(parts, scattered(1.0)) == pytest.approx(load.w / cost)


# CMESHJOIN: nothing costs but the scan, and a cached row takes the paper's 128 B

CMESHJOIN = our_frontstage.FrontStageModel(our_meshjoin)


@pytest.mark.parametrize("memory", [120 * MB, 1_200 * MB])
def test_with_equal_costs_and_memory_our_cache_and_its_gain_are_those_of_equation_4_and_its_derivative(memory):
    large, costs = replace(SAME_R, R_t=100_000_000), replace(SAME_COSTS, c_F=0.0)
    question = Question(memory, large, Stream(e=1.0, batch=ENDLESS), costs, Settings(), accounting=AS_THEY_COUNT)
    published = cmeshjoin.Setting(M=memory, R_t=large.R_t)
    split, foreseen = CMESHJOIN.split(question), CMESHJOIN.predict(question)
    best = cmeshjoin.best_h_R(published)
    assert abs(split.h_R - best) * 128 < memory / 32  # it looks at shares of 1 / 32
    p_N = cmeshjoin.p_N(split.h_R, large.R_t)
    assert foreseen.parameters["p_N"] == pytest.approx(p_N, abs=1e-4)
    behind = our_meshjoin.predict(our_frontstage.behind(split, question)).mu
    assert foreseen.mu == pytest.approx(behind / (1 - p_N), rel=1e-4)  # equation 4
    # equation 3 has mu_dp in proportion to the memory; the model behind has b* besides, which goes with its root
    assert foreseen.mu / our_meshjoin.predict(question).mu == pytest.approx(cmeshjoin.gain(best, published), rel=0.01)


def test_our_cache_adds_to_equation_4_what_a_look_and_a_hit_cost():
    large = replace(SAME_R, R_t=1_000_000)
    costs = replace(SAME_COSTS, c_F=0.0)
    free = Question(20 * MB, large, Stream(e=1.0, batch=ENDLESS), costs, Settings())
    paid = replace(free, costs=replace(costs, c_F=3e-6, c_O=1e-6))
    split = CMESHJOIN.split(free)
    p_N = cmeshjoin.p_N(split.h_R, large.R_t)
    # c_F for each sale; c_O for each too, once in the front stage and once behind it
    behind = 1 / CMESHJOIN.outcome(split, free).mu
    assert 1 / CMESHJOIN.outcome(split, paid).mu == pytest.approx(behind + 4e-6, rel=1e-3)
    assert 0.5 < p_N < 0.9
