"""The least memory for a rate: no less by any choice of rows, and no join does with less."""

import numpy as np
import pytest

from pipeline.advise.forecast import memory_for_rate
from pipeline.joins import Options
from pipeline.joins.cost.cache_rule import best_hits, least_memory, v_S
from pipeline.joins.cost.question import Relation, Stream
from pipeline.joins.cost.unit_costs import Line, UnitCosts

R = Relation(R_t=50_000, v_R=100.0, words=1, row_bytes=240.0)
COSTS = UnitCosts(scan=Line(8e-4, 1e-6), overlapped=Line(1e-3, 4e-6), lookup=Line(5e-4, 5e-6))


def shares(e: float) -> np.ndarray:
    weights = 1.0 / np.arange(1, R.R_t + 1) ** e
    return weights / weights.sum()


@pytest.mark.parametrize("e", [0.0, 0.5, 1.0, 1.5])
@pytest.mark.parametrize("rate", [1_000.0, 30_000.0, 300_000.0])
def test_it_is_the_inequality_applied_to_each_row(e, rate):
    """Row by row, which shares nothing with the model: each takes the less of what it costs kept, and waited for."""
    p = shares(e)
    T = R.R_t * COSTS.scan.item / (1 - rate * (COSTS.c_S + COSTS.c_O)) / 2
    by_row = np.minimum(R.v_R, rate * p * T * v_S(R)).sum()
    assert least_memory(rate, R, Stream(e=e), COSTS).scanned == pytest.approx(by_row, rel=0.01, abs=R.v_R)


@pytest.mark.parametrize("e", [0.0, 0.5, 1.0, 1.5])
def test_what_is_not_kept_can_just_be_asked_for_by_name(e):
    rate = 400_000.0
    missed = 1 - np.cumsum(shares(e))
    time = 1 - rate * (COSTS.c_S + COSTS.c_O)
    rows = 1 + np.flatnonzero(missed * rate * COSTS.overlapped.item <= time)[0]
    assert least_memory(rate, R, Stream(e=e), COSTS).by_name == pytest.approx(rows * R.v_R, rel=0.04, abs=R.v_R)
    assert least_memory(1_000.0, R, Stream(e=e), COSTS).by_name == 0


def test_no_memory_is_enough_for_a_rate_that_leaves_no_time_to_read():
    found = least_memory(1e7, R, Stream(), COSTS)
    assert (found.scanned, found.by_name) == (None, None)


@pytest.mark.parametrize("e", [0.0, 1.0])
@pytest.mark.parametrize("rate", [20_000.0, 100_000.0, 300_000.0])
def test_no_join_is_foreseen_to_do_with_less(e, rate):
    stream = Stream(e=e, batch=1_000_000)
    bound = least_memory(rate, R, stream, COSTS)
    options = Options(costs=COSTS, stream=stream)
    for name in ("meshjoin", "r-meshjoin", "cmeshjoin"):
        enough = memory_for_rate(name, R, options, rate)
        assert enough is None or enough >= bound.scanned, name
    for name in ("inlj", "front stage + inlj"):
        enough = memory_for_rate(name, R, options, rate)
        assert enough is None or enough >= bound.by_name, name


def test_the_best_rule_keeps_the_rows_most_wanted():
    assert best_hits(1_000 * R.v_R, R, Stream(e=1.0)) == pytest.approx(shares(1.0)[:1_000].sum(), rel=1e-3)
    half_absent = best_hits(1_000 * R.v_R, R, Stream(e=1.0, absent=0.5))
    assert half_absent == pytest.approx(shares(1.0)[:1_000].sum() / 2, rel=1e-3)
    assert best_hits(1e12, R, Stream(e=1.0)) == pytest.approx(1.0)
