"""More of the joins' inner loops, see inner_loops.py: counters of 4 bits, two a byte, two for each key.

Between two halvings a count is worth less and less, so a use may count for up to two; and what is no whole number is
rounded up as often as its fraction says. Both are drawn from `random`, a number that goes its own way: the same sales
give the same counts, on any machine.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pipeline.compiling import compiled, numba, part
from pipeline.joins.parts.mixing import mixed

MOST = 15

_HALF, _LOW, _ONE = np.uint64(32), np.uint64(0xFFFFFFFF), np.uint64(1)
_TIMES, _PLUS, _UP = np.uint64(6364136223846793005), np.uint64(1442695040888963407), np.uint64(40)
_RANGE = 1.0 / (1 << 24)

_Codes = numba.types.Array(numba.uint64, 2, "C", readonly=True)
_Floats = numba.types.Array(numba.float32, 1, "C")
_Wanted = numba.types.Array(numba.float32, 1, "C", readonly=True)
_Bytes = numba.types.Array(numba.uint8, 1, "C")
_Random = numba.types.Array(numba.uint64, 1, "C")
_flag, _double, _int = numba.boolean, numba.float64, numba.int64


@part
def _drawn(random: Any) -> Any:
    """A number of [0, 1)."""
    random[0] = random[0] * _TIMES + _PLUS
    return (random[0] >> _UP) * _RANGE


@part
def _one(number: Any, cells: Any) -> Any:
    """A key's first counter."""
    return ((number >> _HALF) * cells) >> _HALF


@part
def _other(number: Any, cells: Any) -> Any:
    return ((number & _LOW) * cells) >> _HALF


@part
def _at(pairs: Any, cell: Any) -> Any:
    both = np.int64(pairs[cell >> _ONE])
    return both >> 4 if cell & _ONE else both & 15


@part
def _raise_to(pairs: Any, cell: Any, count: Any) -> Any:
    """By how much it rises."""
    both, rise = np.int64(pairs[cell >> _ONE]), np.int64(0)
    if cell & _ONE:
        if both >> 4 < count:
            rise = count - (both >> 4)
            pairs[cell >> _ONE] = (both & 15) | (count << 4)
    elif both & 15 < count:
        rise = count - (both & 15)
        pairs[cell >> _ONE] = (both & 0xF0) | count
    return rise


@compiled(_int(_Codes, _Wanted, _flag, _double, _Bytes, _Random))
def remember(codes: Any, wanted: Any, more: bool, worth: float, pairs: Any, random: Any) -> Any:
    """These keys were wanted so often; `more`: beside what is remembered of them. Only the lesser counter rises.

    By how much all counters rise.
    """
    total = 0
    cells = np.uint64(2 * len(pairs))
    for row in range(len(codes) if len(pairs) else 0):
        number = mixed(codes, np.uint64(row))
        one, other = _one(number, cells), _other(number, cells)
        count = min(_at(pairs, one), _at(pairs, other)) if more else 0
        count = min(MOST, count + int(min(wanted[row] / worth, MOST) + _drawn(random)))
        total += _raise_to(pairs, one, count)
        total += _raise_to(pairs, other, count)
    return total


@compiled(_Floats(_Codes, _double, _Bytes))
def recall(codes: Any, worth: float, pairs: Any) -> Any:
    """How often each of these keys was wanted; too often, where another has both of its counters."""
    cells, wanted = np.uint64(2 * len(pairs)), np.zeros(len(codes), np.float32)
    for row in range(len(codes) if len(pairs) else 0):
        number = mixed(codes, np.uint64(row))
        wanted[row] = worth * min(_at(pairs, _one(number, cells)), _at(pairs, _other(number, cells)))
    return wanted


@compiled(_int(_Bytes, _Random))
def halve(pairs: Any, random: Any) -> Any:
    """Each counter; an odd one goes either way. What all have then."""
    total: Any = 0
    for place in range(len(pairs)):
        both = np.int64(pairs[place])
        low, high = both & 15, both >> 4
        low = (low + (1 if _drawn(random) < 0.5 else 0)) >> 1
        high = (high + (1 if _drawn(random) < 0.5 else 0)) >> 1
        pairs[place] = low | (high << 4)
        total += low + high
    return total
