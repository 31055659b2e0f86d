"""The papers' "standard calculus", done by looking: costs are measured, and no formula knows their optimum."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")

_EQUAL = 1e-9  # values that differ by no more of themselves are the same
_AT_ONCE = 12  # numbers that `peak` looks at together
_APART = 4  # candidates that `best_near` looks at first
_TINY = 1e-300
_NEAR = 1e-7  # of itself: a number that `crossing` looks for is known as well as that


def best(candidates: Iterable[T], value: Callable[[T], float], then: Callable[[T], float] = lambda _: 0.0) -> T:
    """The candidate of the greatest value: the papers' "standard calculus", done by looking.

    Of equally good ones the greatest by `then`, and of those the first. Sums of floats differ in their last digits, and
    where all of R stays in memory every size of a page is as good: pages of one row were chosen for that, and to read
    them all took minutes.

    >>> best([2, 3, 1], lambda size: 4e6 + 1e-9 / size), best([2, 3, 1], lambda size: 4e6, lambda size: size)
    (2, 3)
    """
    valued = [(value(candidate), candidate) for candidate in candidates]
    greatest = max(number for number, _ in valued)
    return max((candidate for number, candidate in valued if number >= greatest - _EQUAL * abs(greatest)), key=then)


def best_near(candidates: Sequence[T], value: Callable[[T], float], then: Callable[[T], float] = lambda _: 0.0) -> T:
    """The same of candidates that stand in the order of their sizes, so that neighbours have nearly the same value.

    Every fourth is looked at, then those around the best of these: half of them, where each may take a tenth of a
    second.

    >>> best_near(range(30), lambda size: -((size - 13) ** 2)), best_near(range(30), lambda _: 1.0, lambda size: -size)
    (13, 0)
    """

    @cache
    def value_at(place: int) -> float:
        return value(candidates[place])

    def then_at(place: int) -> float:
        return then(candidates[place])

    last = len(candidates) - 1
    roughly = best([*range(0, last, _APART), last], value_at, then_at)
    around = range(max(0, roughly - _APART + 1), min(last, roughly + _APART - 1) + 1)
    return candidates[best(around, value_at, then_at)]


def grid(least: float, most: float, steps: int = 40) -> list[int]:
    """Whole numbers from `least` to `most` in equal ratios: where a model looks for its best parameter.

    >>> grid(1, 100, 5)
    [1, 3, 10, 32, 100]
    """
    least, most = max(1.0, least), max(1.0, least, most)
    return sorted({round(number) for number in np.geomspace(least, most, steps)})


def peak(value: Callable[[int], Any], least: int, most: int) -> int:
    """Where a function with one maximum has it: first roughly, then between the neighbours of the best.

    >>> peak(lambda number: -((number - 123_456) ** 2), 1, 10_000_000), peak(float, 1, 77), peak(lambda n: -n, 3, 77)
    (123456, 77, 3)
    """
    while True:
        numbers = grid(least, most, _AT_ONCE)
        place = numbers.index(max(numbers, key=value))
        least, most = numbers[max(0, place - 1)], numbers[min(place + 1, len(numbers) - 1)]
        if most - least <= 2:
            return numbers[place]


def crossing(value: Callable[[float], float], wanted: float, low: float, high: float) -> float:
    """Where an increasing function is `wanted`, between two numbers above 0; else the one that is nearer to it.

    Most of ours go nearly with a power of their argument, so their logarithms are looked at. The next guess is by the
    curve through three points where that is safe, else in the middle (Chandrupatla 1997).

    >>> tried = []
    >>> round(crossing(lambda x: tried.append(x) or x**2 + x, 132.0, 1e-3, 1e6), 4), len(tried)
    (11.0, 8)
    >>> crossing(lambda x: x, 7.0, 1.0, 5.0), crossing(lambda x: x, 0.5, 1.0, 5.0)
    (5.0, 1.0)
    """

    def beyond(place: float) -> float:
        return math.log(max(value(math.exp(place)), _TINY) / wanted)

    other, last = math.log(low), math.log(high)
    at_other, at_last = beyond(other), beyond(last)
    if at_other >= 0 or at_last <= 0:
        return low if at_other >= 0 else high
    share = at_last / (at_last - at_other)
    while True:
        place = last + share * (other - last)
        at = beyond(place)
        if (at < 0) == (at_last < 0):
            before, at_before = last, at_last
        else:
            before, at_before, other, at_other = other, at_other, last, at_last
        last, at_last = place, at
        near = _NEAR / abs(other - last)
        if near > 0.5 or abs(at) < _NEAR / 10:
            return math.exp(place)
        x, y = (last - other) / (before - other), (at_last - at_other) / (at_before - at_other)
        share = 0.5
        if y**2 < x and (1 - y) ** 2 < 1 - x:
            share = at_last / (at_other - at_last) * at_before / (at_other - at_before)
            share += (
                (before - last) / (other - last) * at_last / (at_before - at_last) * at_other / (at_before - at_other)
            )
        share = min(max(share, near), 1 - near)
