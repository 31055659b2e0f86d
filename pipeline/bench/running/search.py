"""Points that are the best of many sizes: found by trying, at any target, for rates are measured and no formula."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np

from pipeline.bench.point.points import Point, Search
from pipeline.bench.point.target import Measured

Measure = Callable[[Point], Measured]

_AROUND = 3.0  # the curve is laid through sizes that are up to so many times larger or smaller than the best
_BENDS = 4  # its degree: with 2 the bottom is 5 % too low for MESHJOIN's equations, for it is steeper to the left
_LOOKS = 2_001
_CLOSE = 0.002  # of the memory sought
_LEAST_STEP = 0.02  # of what is between both ends


def found(point: Point, measure: Measure) -> Measured:
    """The point with the size that is sought, and that size by its name."""
    assert point.search
    seek = {"buffer": _best_buffer, "memory": _least_memory}[point.search.size]
    return seek(msgspec.structs.replace(point, search=None), point.search, measure)


def _best_buffer(point: Point, search: Search, measure: Measure) -> Measured:
    """
    Idea
        A rate is flat about its best: a curve through the seconds a sale over the logarithm of the size, near the best
        of the sizes tried, tells its bottom better than the best one does. The bottom is then measured as well.
    """
    sizes = np.geomspace(point.nbytes(search.least), point.nbytes(search.most), search.steps)
    tried = {float(size): measure(_sized(point, buffer=round(size))) for size in sizes}
    worked = {size: seen for size, seen in tried.items() if not seen.refused}
    if not worked:
        return next(iter(tried.values()))
    best = max(worked, key=lambda size: worked[size].numbers["rate"])
    bottom = {
        kind: _bottom({size: 1 / getattr(seen, kind)["rate"] for size, seen in worked.items()}, best)
        for kind in ("numbers", "predicted")
    }
    there = measure(_sized(point, buffer=round(bottom["numbers"])))
    seen = max((there, worked[best]), key=lambda seen: seen.numbers.get("rate", 0.0))
    return Measured(
        numbers=seen.numbers | {"buffer": bottom["numbers"]},
        predicted=seen.predicted | {"buffer": bottom["predicted"]},
    )


def _bottom(seconds: dict[float, float], best: float) -> float:
    near = [size for size in seconds if best / _AROUND <= size <= best * _AROUND]
    if len(near) < 3:
        return best
    logs, each = np.log(near), np.array([seconds[size] for size in near])
    curve = np.polyfit(logs, each / each.min() - 1, min(_BENDS, len(near) - 1))
    between = np.linspace(logs[0], logs[-1], _LOOKS)
    return float(np.exp(between[np.argmin(np.polyval(curve, between))]))


def _least_memory(point: Point, search: Search, measure: Measure) -> Measured:
    """Between a memory that is too small and one that is enough, where the line between their rates says; and so that
    neither end stays for ever."""
    low, high = point.nbytes(search.least), point.nbytes(search.most)
    largest = measure(_sized(point, memory=high))
    if largest.refused or largest.numbers["rate"] < search.rate:
        return Measured(refused=largest.refused or f"{high:,} bytes are too few for {search.rate:,.0f} sales a second.")
    enough, above, below = largest, largest.numbers["rate"], 0.0
    while high - low > _CLOSE * high:
        share = (search.rate - below) / (above - below)
        middle = round(low + (high - low) * min(max(share + _CLOSE, _LEAST_STEP), 1 - _LEAST_STEP))
        seen = measure(_sized(point, memory=middle))
        rate = seen.numbers.get("rate", 0.0)
        if rate >= search.rate:
            high, enough, above = middle, seen, rate
        else:
            low, below = middle, rate
    return Measured(numbers=enough.numbers | {"memory": float(high)})


def _sized(point: Point, **sizes: int) -> Point:
    return msgspec.structs.replace(point, **sizes)
