"""What tasks answer: nothing is lost on the way to the driver, and merging adds up whatever the order."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.answers.histogram import Histogram
from pipeline.answers.task import DimensionAnswer, Offsets, TaskAnswer, decode, encode
from pipeline.joins.counts import JoinStatistics
from pipeline.master.port import ReadCount, Reads
from pipeline.master.share import Used
from pipeline.warehouse.port import FileAction

SHORT = settings(max_examples=30, deadline=None)  # a busy machine is no failure

many = st.integers(0, 10**12)
counts = st.builds(JoinStatistics, **{field.name: many for field in fields(JoinStatistics)})
read_counts = st.builds(ReadCount, many, many, many, st.floats(0, 100), many)
reads = st.builds(Reads, st.dictionaries(st.sampled_from(["lookup", "scan"]), read_counts, max_size=2))
numbers = st.dictionaries(st.sampled_from(["a", "b", "c"]), st.integers(0, 10**12), max_size=3)
ages = st.lists(st.floats(1e-3, 1e4), max_size=20).map(np.array)


@st.composite
def dimension_answers(draw: st.DrawFn) -> DimensionAnswer:
    return DimensionAnswer(
        algorithm="inlj",
        counts=draw(counts),
        reads=draw(reads),
        seconds=draw(st.floats(0, 100)),
        memory=draw(numbers),
        memory_limit=draw(st.integers(0, 10**9)),
        queue_wait=Histogram.of(draw(ages)),
        processing=Histogram.of(draw(ages)),
    )


@st.composite
def answers(draw: st.DrawFn) -> TaskAnswer:
    offsets = st.builds(Offsets, st.integers(0, 50), st.integers(50, 99), st.integers(1, 50))
    names = st.lists(st.sampled_from("xyz"), max_size=2)
    return TaskAnswer(
        facts=[FileAction(name, 1, {"day": None}, 2, 3, "{}") for name in draw(names)],
        rejects=[FileAction(name, 1, {}, 2, 3, "{}") for name in draw(names)],
        sales=draw(st.integers(0, 10**9)),
        rejected=draw(numbers),
        topics=draw(numbers),
        offsets=draw(st.dictionaries(st.sampled_from(["t/0", "t/1"]), offsets, max_size=2)),
        dimensions=draw(st.dictionaries(st.sampled_from(["product", "store"]), dimension_answers(), max_size=2)),
        age=Histogram.of(draw(ages)),
        at=draw(st.floats(1.7e9, 1.7e9 + 10)),
        phases=draw(st.dictionaries(st.sampled_from(["parse", "write"]), st.floats(0, 100))),
        peak_bytes=draw(st.integers(0, 10**10)),
        workers=draw(st.lists(st.text(), max_size=3, unique=True).map(sorted)),
        used=draw(st.lists(st.builds(Used, st.floats(0, 1), st.integers(0, 9), st.integers(0, 999)), max_size=2)),
        sessions=draw(st.integers(0, 64)),
    )


def merged(*parts: TaskAnswer) -> TaskAnswer:
    whole = TaskAnswer()
    for part in parts:
        whole += part
    return whole


@given(answers())
@SHORT
def test_an_answer_comes_out_as_it_went_in(answer: TaskAnswer) -> None:
    again = decode(encode(answer))
    assert encode(again) == encode(answer)
    assert again.sales == answer.sales
    assert again.facts == answer.facts
    assert np.array_equal(again.age.counts, answer.age.counts)
    for name, dimension in answer.dimensions.items():
        assert again.dimensions[name].counts == dimension.counts
        assert again.dimensions[name].reads == dimension.reads
        assert np.array_equal(again.dimensions[name].queue_wait.counts, dimension.queue_wait.counts)


@given(st.lists(answers(), min_size=1, max_size=4), st.randoms(use_true_random=False))
@SHORT
def test_the_order_of_the_tasks_does_not_matter(parts: list[TaskAnswer], random) -> None:
    shuffled = parts[:]
    random.shuffle(shuffled)
    one, other = merged(*parts), merged(*shuffled)
    for exact in ("sales", "rejected", "topics", "offsets", "peak_bytes", "at"):
        assert getattr(one, exact) == getattr(other, exact), exact
    assert sorted(f.path for f in one.facts) == sorted(f.path for f in other.facts)
    for name in one.dimensions:
        assert one.dimensions[name].counts == other.dimensions[name].counts
        assert one.dimensions[name].reads.total.rows == other.dimensions[name].reads.total.rows
        assert one.dimensions[name].seconds == pytest.approx(other.dimensions[name].seconds)
    assert one.age.total == pytest.approx(other.age.total, abs=1e-3)


@given(st.lists(answers(), min_size=1, max_size=4))
@SHORT
def test_a_merge_counts_every_task_once(parts: list[TaskAnswer]) -> None:
    whole = merged(*parts)
    assert whole.sales == sum(part.sales for part in parts)
    assert whole.peak_bytes == max(part.peak_bytes for part in parts)  # a peak is no sum
    assert whole.age.count == sum(part.age.count for part in parts)
    for topic in whole.topics:
        assert whole.topics[topic] == sum(part.topics.get(topic, 0) for part in parts)
    for place, offsets in whole.offsets.items():
        of_place = [part.offsets[place] for part in parts if place in part.offsets]
        assert offsets.messages == sum(part.messages for part in of_place)
        assert (offsets.first, offsets.last) == (min(o.first for o in of_place), max(o.last for o in of_place))
    for name, dimension in whole.dimensions.items():
        of_name = [part.dimensions[name] for part in parts if name in part.dimensions]
        assert dimension.memory_limit == sum(d.memory_limit for d in of_name)
        assert dimension.queue_wait.count == sum(d.queue_wait.count for d in of_name)


def test_ages_are_told_as_of_the_later_end() -> None:
    early = TaskAnswer(age=Histogram.of(np.array([10.0])), at=100.0)
    late = TaskAnswer(age=Histogram.of(np.array([1.0])), at=105.0)
    for whole in (merged(early, late), merged(late, early)):
        assert whole.at == 105.0
        assert whole.age.total == pytest.approx(16.0)
        assert whole.age.quantile(1.0) == pytest.approx(15.0, rel=0.03)
        assert whole.age.quantile(0.0) == pytest.approx(1.0, rel=0.03)


def test_a_batch_without_messages_is_an_answer_too() -> None:
    whole = merged(TaskAnswer(), TaskAnswer())
    assert (whole.sales, whole.age.count, decode(encode(whole)).offsets) == (0, 0, {})


def test_counters_grow_by_their_difference_whatever_they_count() -> None:
    before = JoinStatistics(offered=5, matched=4)
    after = JoinStatistics(offered=12, matched=4, hits=3)
    assert after - before == JoinStatistics(offered=7, hits=3)
    assert before + (after - before) == after


def test_reads_grow_by_kind_also_by_a_kind_that_is_new() -> None:
    before = Reads({"lookup": ReadCount(queries=2, rows=20, seconds=1.0)})
    after = Reads({"lookup": ReadCount(queries=5, rows=50, seconds=1.5), "scan": ReadCount(queries=1, failures=2)})
    grown = after - before
    assert grown.by_kind == {"lookup": ReadCount(3, 30, 0, 0.5), "scan": ReadCount(1, failures=2)}
    assert before + grown == after
    assert after.total == ReadCount(queries=6, rows=50, seconds=1.5, failures=2)


def test_adding_up_answers_changes_none_of_them() -> None:
    one, other = (TaskAnswer(topics={"sales": n}, dimensions={"product": a_prediction(n, 1.0)}) for n in (1, 2))
    assert (one + other).dimensions["product"].counts.matched == 3
    assert (one.topics, one.dimensions["product"].counts.matched) == ({"sales": 1}, 1)


def test_numbers_of_numpy_travel_as_numbers() -> None:
    answer = TaskAnswer(
        dimensions={
            "product": DimensionAnswer("inlj", counts=JoinStatistics(hits=np.int64(3)), seconds=np.float64(0.5))
        }
    )
    again = decode(encode(answer)).dimensions["product"]
    assert (again.counts.hits, again.seconds) == (3, 0.5)


def test_what_cannot_travel_is_refused_and_not_turned_into_text() -> None:
    with pytest.raises(TypeError, match="cannot be part of an answer"):
        encode(TaskAnswer(topics={"sales": object()}))


def a_prediction(sales: int, rate: float) -> DimensionAnswer:
    return DimensionAnswer(algorithm="inlj", counts=JoinStatistics(matched=sales), predicted_rate=rate)


def test_the_rate_predicted_for_several_tasks_is_their_sales_by_their_predicted_seconds() -> None:
    whole = a_prediction(300, 100.0)  # 3 s
    whole += a_prediction(200, 200.0)  # 1 s
    whole += a_prediction(0, 999.0)
    whole += a_prediction(100, 50.0)  # 2 s
    assert whole.predicted_rate == pytest.approx(600 / 6)


def test_a_task_that_predicts_nothing_does_not_hide_what_another_predicts() -> None:
    whole = a_prediction(0, 0.0)
    whole += a_prediction(200, 200.0)
    whole += a_prediction(0, 0.0)
    assert whole.predicted_rate == 200
