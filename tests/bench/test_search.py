"""Points that are the best of many: found by trying, whatever the target."""

from __future__ import annotations

import math

import pytest

from pipeline.bench.point.points import Point, Search
from pipeline.bench.point.target import Measured
from pipeline.bench.running.search import found

KNEE = 1_000_000.0


def seconds(point: Point) -> float:
    """A sale's: a request for each read, and fewer sales the larger the buffer is; the least at KNEE, nearly."""
    buffer = point.nbytes(point.buffer)
    return 1 / (1 / (KNEE / buffer + buffer / KNEE)) if buffer else math.nan


def point(search: Search, **more: object) -> Point:
    return Point(machine="hybridjoin-2011", R={"rows": 1_000}, join="meshjoin", search=search, **more)


def test_the_best_buffer_lies_between_the_sizes_that_were_tried():
    tried: list[int] = []

    def measure(here: Point) -> Measured:
        assert here.search is None
        tried.append(here.buffer)
        return Measured(numbers={"rate": 1 / seconds(here)}, predicted={"rate": 1 / seconds(here)})

    seen = found(point(Search(size="buffer", least="0.11 MB", most="12 MB", steps=7)), measure)
    assert seen.numbers["buffer"] == pytest.approx(KNEE, rel=0.03)
    assert seen.predicted["buffer"] == pytest.approx(KNEE, rel=0.03)
    assert len(tried) == 8
    assert min(abs(size / KNEE - 1) for size in tried[:7]) > 0.1  # none of the sizes was the one that was found
    assert seen.numbers["rate"] == pytest.approx(0.5, rel=1e-3)


def test_a_best_buffer_at_the_end_of_what_may_be_is_that_end():
    seen = found(
        point(Search(size="buffer", least="2 MB", most="12 MB", steps=6)),
        lambda here: Measured(numbers={"rate": 1 / seconds(here)}, predicted={"rate": 1.0}),
    )
    assert seen.numbers["buffer"] == pytest.approx(2e6, rel=0.05)


def test_sizes_with_which_a_join_cannot_work_are_passed_over_and_none_at_all_is_an_answer():
    def measure(here: Point) -> Measured:
        if here.nbytes(here.buffer) > KNEE * 1.5:
            return Measured(refused="too large.")
        return Measured(numbers={"rate": 1 / seconds(here)}, predicted={"rate": 1.0})

    found_one = found(point(Search(size="buffer", least="0.1 MB", most="10 MB", steps=9)), measure)
    assert found_one.numbers["buffer"] == pytest.approx(KNEE, rel=0.15)
    none = found(point(Search(size="buffer", least="2 MB", most="10 MB", steps=3)), measure)
    assert (none.refused, none.numbers) == ("too large.", {})


@pytest.mark.parametrize("law", [lambda memory: memory / 10, lambda memory: 1e6 * memory / (memory + 1e7), math.sqrt])
def test_the_least_memory_for_a_rate_is_found_to_a_five_hundredth(law):
    for rate in (1_500.0, 4_000.0):
        measured: list[int] = []

        def measure(here: Point, law=law, measured=measured) -> Measured:
            measured.append(here.memory)
            return Measured(numbers={"rate": law(here.memory)} if here.memory > 2_000 else {}, refused="")

        seen = found(point(Search(size="memory", least=1_000, most="60 MB", rate=rate)), measure)
        least = min(memory for memory in range(1_000, 60_000_000, 100) if law(memory) >= rate)
        assert least - 100 <= seen.numbers["memory"] <= least * 1.003
        assert seen.numbers["rate"] >= rate
        assert len(measured) < 60


def test_a_rate_that_no_memory_gives_is_refused():
    search = Search(size="memory", least=1_000, most=2_000, rate=5_000.0)
    seen = found(point(search), lambda here: Measured(numbers={"rate": 10.0}))
    assert seen.refused == "2,000 bytes are too few for 5,000 sales a second."
