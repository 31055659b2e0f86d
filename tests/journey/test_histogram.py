"""The histogram of durations: its counts are exact, and its edges blur what it says by at most one per cent."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.answers.histogram import Histogram

BLUR = 1.011  # half a bin of 2 %, and a rounding error

SHORT = settings(max_examples=60, deadline=None)  # a busy machine is no failure

durations = st.lists(st.floats(1e-4, 36_000), min_size=1, max_size=200).map(np.array)
any_numbers = st.lists(st.floats(-1e6, 1e9), max_size=200).map(np.array)


@SHORT
@given(any_numbers)
def test_nothing_that_is_observed_gets_lost(seconds):
    histogram = Histogram.of(seconds)
    assert histogram.count == len(seconds)
    assert histogram.total == pytest.approx(np.maximum(seconds, 0).sum())


@SHORT
@given(any_numbers, any_numbers)
def test_a_merge_is_the_histogram_of_both(one, other):
    merged = Histogram.of(one)
    merged += Histogram.of(other)
    both = Histogram.of(np.concatenate([one, other]))
    assert np.array_equal(merged.counts, both.counts)
    assert merged.total == pytest.approx(both.total)


def test_a_merge_leaves_the_other_histogram_as_it_was():
    sum_, other = Histogram(), Histogram.of(np.array([1.0]))
    sum_ += other
    sum_ += Histogram.of(np.array([1.0, 2.0]))
    assert (other.count, other.total) == (1, 1.0)


@SHORT
@given(durations, st.floats(0, 1))
def test_a_quantile_is_an_observed_duration_give_or_take_one_per_cent(seconds, q):
    in_order = np.sort(seconds)
    rank = max(1, int(np.ceil(q * len(seconds) - 1e-9)))
    found = Histogram.of(seconds).quantile(q)
    assert in_order[rank - 1] / BLUR <= found <= in_order[rank - 1] * BLUR


def test_the_lowest_quantile_is_the_shortest_duration_and_not_the_shortest_possible():
    assert Histogram.of(np.array([5.0, 9.0])).quantile(0.0) == pytest.approx(5.0, rel=0.01)


def test_nothing_observed_has_quantile_zero():
    assert Histogram().quantile(0.99) == 0.0


@SHORT
@given(durations, st.lists(st.floats(1e-3, 40_000), min_size=1, max_size=20).map(sorted).map(np.array))
def test_cumulative_counts_are_right_but_for_durations_within_one_per_cent_of_a_bound(seconds, bounds):
    found = Histogram.of(seconds).cumulative(bounds)
    for bound, count in zip(bounds, found, strict=True):
        assert (seconds <= bound / BLUR).sum() <= count <= (seconds <= bound * BLUR).sum()
    assert (np.diff(found) >= 0).all()


@SHORT
@given(durations, st.floats(0, 3_600))
def test_a_shift_moves_every_duration_and_rounds_it_once_more(seconds, by):
    shifted = Histogram.of(seconds).shifted(by)
    assert shifted.count == len(seconds)
    assert shifted.total == pytest.approx(seconds.sum() + by * len(seconds))
    for q in (0.0, 0.5, 0.99, 1.0):
        expected = Histogram.of(seconds + by).quantile(q)
        assert expected / BLUR**2 <= shifted.quantile(q) <= expected * BLUR**2


@SHORT
@given(any_numbers)
def test_a_shift_by_nothing_changes_nothing(seconds):
    histogram = Histogram.of(seconds)
    assert np.array_equal(histogram.shifted(0.0).counts, histogram.counts)


def test_a_shift_into_the_past_never_makes_a_negative_sum():
    assert Histogram.of(np.array([0.5])).shifted(-2.0).total == 0.0


@SHORT
@given(any_numbers)
def test_the_sparse_form_is_the_whole_histogram(seconds):
    histogram = Histogram.of(seconds)
    again = Histogram.from_sparse(**histogram.sparse())
    assert np.array_equal(again.counts, histogram.counts)
    assert again.total == histogram.total
