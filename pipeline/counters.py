"""Numbers that only grow, as a class with a field for each: from whoever counts, to the worker's answer, to a metric.

A counter that is renamed is renamed everywhere, or mypy says where it is not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from operator import add, sub
from typing import TypeVar

C = TypeVar("C", bound="Counters")


@dataclass
class Counters:
    """Sums and differences are taken field by field.

    >>> @dataclass
    ... class Seen(Counters):
    ...     sales: int = 0
    ...     seconds: float = 0.0
    >>> Seen(sales=5, seconds=2.0) - Seen(sales=3), Seen(1) + Seen(2)
    (Seen(sales=2, seconds=2.0), Seen(sales=3, seconds=0.0))
    """

    def __add__(self: C, other: C) -> C:
        return _by_field(add, self, other)

    def __sub__(self: C, other: C) -> C:
        return _by_field(sub, self, other)


def _by_field(combined: Callable[[float, float], float], one: C, other: C) -> C:
    return replace(one, **{f.name: combined(getattr(one, f.name), getattr(other, f.name)) for f in fields(one)})
