"""The other tuning question: how little memory reaches a rate."""

from dataclasses import replace

import pytest

from pipeline import joins
from pipeline.forecast import memory_for_rate
from pipeline.joins.base import Options
from pipeline.joins.cost.units import Relation, UnitCosts

RELATION = Relation(R_t=200_000, v_R=60.0, words=1, row_bytes=152.0)


@pytest.mark.parametrize("name", ["meshjoin", "hybridjoin", "inlj"])
def test_the_least_memory_for_a_rate_gives_that_rate_and_less_does_not(name):
    least = joins.least_memory(name, RELATION, Options())
    rate = joins.predict(name, 20 * least + (1 << 20), RELATION, Options()).mu / 3
    memory = memory_for_rate(name, False, RELATION, Options(), rate)
    assert joins.predict(name, memory, RELATION, Options()).mu >= rate
    assert joins.predict(name, int(0.8 * memory), RELATION, Options()).mu < rate


def test_a_rate_that_no_memory_reaches_is_told():
    slow = Options(costs=replace(UnitCosts(), c_O=1.0))
    assert memory_for_rate("meshjoin", False, RELATION, slow, 1_000) is None
