"""Claims: what each kind takes from lines, when it holds, and how it is told."""

from __future__ import annotations

import math

import pytest

from pipeline.bench.definition.claims import Claim
from pipeline.bench.page.numbers import taken

LINES = {
    "new": {1.0: 40.0, 2.0: 60.0, 4.0: 50.0},
    "old": {1.0: 10.0, 2.0: 20.0, 4.0: 40.0, 8.0: 5.0},
    "none": {},
}


def numbers(take: str, series: str = "new", **more: object) -> dict[float, float]:
    claim = Claim(says="", series=[series], take=take, at_least=0, **more)
    return claim.numbers(*claim.pairs[0], LINES.__getitem__)


def test_each_kind_takes_its_numbers():
    beside = {"over": ["old"]}
    assert numbers("value") == LINES["new"]
    assert numbers("value", x=[2.0]) == {2.0: 60.0}
    assert numbers("ratio", **beside) == {1.0: 4.0, 2.0: 3.0, 4.0: 1.25}
    assert numbers("apart", **beside) == {1.0: 3.0, 2.0: 2.0, 4.0: 0.25}
    assert numbers("loss", "old", over=["new"]) == {1.0: 0.75, 2.0: pytest.approx(2 / 3), 4.0: pytest.approx(0.2)}
    assert numbers("loss", x=[1.0]) == {1.0: pytest.approx(1 / 3)}  # of its own best, which lies elsewhere
    assert numbers("excess", x=[2.0]) == {2.0: pytest.approx(0.5)}  # over its own least
    assert numbers("excess", "old", over=["new"], x=[1.0]) == {1.0: -0.75}
    assert numbers("step") == {2.0: 1.5, 4.0: pytest.approx(5 / 6)}
    assert numbers("spread") == {4.0: pytest.approx(1 / 3)}
    assert numbers("peak") == {2.0: 2.0}
    assert numbers("trough") == {1.0: 1.0}
    assert numbers("value", "none") == numbers("step", x=[2.0]) == numbers("ratio", over=["none"]) == {}


def test_a_claim_holds_within_its_bounds_and_says_by_how_much_it_is_missed():
    at_least = Claim(says="", series=["new"], at_least=50)
    assert [at_least.missed(number) <= 0 for number in (49, 50, 60)] == [False, True, True]
    both = Claim(says="", series=["new"], at_least=1, at_most=2)
    assert [both.missed(number) for number in (0.5, 1.5, 3)] == [0.5, -0.5, 1]
    printed = Claim(says="", series=["new"], printed=200, within=0.05)
    assert [printed.missed(number) <= 0 for number in (189, 191, 209, 211)] == [False, True, True, False]
    assert printed.missed(math.nan) == math.inf


def test_what_a_series_is_beside_is_one_for_all_or_one_for_each():
    assert Claim(says="", series=["a", "a"], over=["c", "d"]).pairs == [("a", "c"), ("a", "d")]
    assert Claim(says="", series=["a", "b"], over=["c"]).pairs == [("a", "c"), ("b", "c")]
    assert Claim(says="", series=["a", "b"]).pairs == [("a", ""), ("b", "")]


def test_numbers_are_told_by_what_they_are():
    assert [taken(take, 0.01234) for take in ("value", "ratio", "loss")] == ["0.0123", "0.0123 x", "1.23 %"]
