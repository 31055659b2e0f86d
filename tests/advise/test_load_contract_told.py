"""What `explain` says of the caps on the database: which wait they cost, or that they cannot carry the rate."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from pipeline.advise import load_contract
from pipeline.advise.demand import Demand
from pipeline.advise.forecast import Table
from pipeline.config.settings import load
from pipeline.joins.cost.question import Relation
from pipeline.plan import resolve

LARGE = Relation(R_t=2_000_000, v_R=60.0, words=1, row_bytes=152.0)


def told(rate: float, *master: str, spark: str = "local[2]") -> str:
    given = [
        "dimensions.product.memory=1 MiB",
        "dimensions.product.skew=0.5",
        f"spark.master={spark}",
        "master.costs=none",
    ]
    plan = resolve(load(assignments=[*given, *(f"master.{cap}" for cap in master)], environment={}))
    demand = Demand.of(plan, rate)
    plan = replace(plan, workers=demand.workers)
    return "\n".join(load_contract.told(plan, {"product": Table(plan, "product", LARGE, True, demand)}, demand))


def asked(line: str) -> tuple[float, float]:
    found = re.search(r"([\d,.]+) statements and ([\d,]+) rows", line)
    assert found, line
    return float(found[1].replace(",", "")), float(found[2].replace(",", ""))


def test_without_caps_there_is_nothing_to_tell():
    assert told(10_000) == ""


@pytest.mark.parametrize(("cap", "which"), [("queries_per_second=3", 0), ("rows_per_second=6000", 1)])
def test_caps_that_carry_the_rate_cost_a_wait_and_nothing_is_asked_beyond_them(cap, which):
    head, without, held, *_ = told(5_000, cap).splitlines()
    assert cap.replace("=", " = ") in head
    waits = [float(re.search(r"waits about ([\d.]+) s", line)[1]) for line in (without, held)]
    assert waits[0] < waits[1]
    assert asked(held)[which] <= float(cap.partition("=")[2])


def test_caps_that_cannot_carry_the_rate_are_told_with_what_they_carry():
    lines = told(20_000, "rows_per_second=1000")
    most = float(re.search(r"with it: .*at most about ([\d,]+) sales", lines)[1].replace(",", ""))
    assert most < 20_000
    assert "So it cannot carry 20,000 sales a second" in lines


def test_tasks_for_which_there_is_no_connection_are_told():
    assert "3 of 8 tasks run at once" in told(1_000, "connections=3", spark="local[8]")
