"""The papers' "standard calculus", done by looking: costs are measured, and no formula knows their optimum."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import numpy as np

T = TypeVar("T")


def best(candidates: Iterable[T], value: Callable[[T], float]) -> T:
    """The candidate of the greatest value: the papers' "standard calculus", done by looking."""
    return max(candidates, key=value)


def grid(least: float, most: float, steps: int = 40) -> list[int]:
    """Whole numbers from `least` to `most` in equal ratios: where a model looks for its best parameter.

    >>> grid(1, 100, 5)
    [1, 3, 10, 32, 100]
    """
    least, most = max(1.0, least), max(1.0, least, most)
    return sorted({round(number) for number in np.geomspace(least, most, steps)})
