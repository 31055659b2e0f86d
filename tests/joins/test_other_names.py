"""A join that has more than one name is the same by each, so the contract is tested by one of them."""

import pytest

from pipeline.joins import make, recipe
from tests.joins.harness import OTHER_NAMES, answer, drive, oracle
from tests.joins.workloads import thousands


@pytest.mark.parametrize(("name", "same"), OTHER_NAMES.items())
def test_it_reads_keeps_and_serves_the_same(name, same):
    keys, master = thousands(rows=1_000, sales=2_000, skew=1.0)
    joins = []
    for called in (name, same):
        _, own = thousands(rows=1_000, sales=0, skew=1.0)
        joins.append(make(called, own, 200_000))
        assert answer(drive(joins[-1], keys, cuts=[500, 1_000])) == oracle(keys, master.table)
    one, other = joins
    assert one.label == name
    assert (one.statistics, one.memory_used()) == (other.statistics, other.memory_used())
    assert one.master.reads == other.master.reads
    assert recipe(name).main is recipe(same).main
    assert one.cached_rows == other.cached_rows > 0
