"""More of the joins' inner loops, see inner_loops.py: which page of R is worth reading next.

A page's worth is the sales that wait for it times the sales that came since the first of these: it grows while nothing
happens to it, and faster where more wait. So the tournament that finds the greatest remembers of each match until when
its outcome holds. The pages are the leaves of a tree, numbered behind its inner nodes: match number i is played by the
winners of 2 i and 2 i + 1, and number 1 is the final. A match whose outcome is not known any more has `until` = -1, and
so have all matches that depend on it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pipeline.compiling import compiled, numba, part

_NEVER = np.int64(1 << 62)

_Ints = numba.types.Array(numba.int32, 1, "C")
_Numbers = numba.types.Array(numba.int32, 1, "C", readonly=True)
_Longs = numba.types.Array(numba.int64, 1, "C")
_int = numba.int64


@part
def _forget(page: Any, matches: Any, until: Any) -> Any:
    """What was known of the matches above this page holds no longer."""
    match = (page + matches) >> 1
    while match >= 1 and until[match] >= 0:
        until[match] = -1
        match >>= 1


@compiled(numba.void(_Numbers, _int, _int, _Ints, _Longs, _Longs))
def wanted(pages: Any, number: int, step: int, sales: Any, since: Any, until: Any) -> None:
    """A sale for each of these pages has come, numbered from `number` in steps of 1, or of 0: all at once."""
    for page in pages:
        if not sales[page] or since[page] > number:
            since[page] = number
        sales[page] += 1
        number += step
        _forget(page, len(sales), until)


@compiled(numba.void(_Numbers, _Ints, _Longs))
def wanted_no_more(pages: Any, sales: Any, until: Any) -> None:
    """A sale for each of these pages has left."""
    for page in pages:
        sales[page] -= 1
        _forget(page, len(sales), until)


@compiled(numba.void(_int, _int, _Ints, _Longs))
def wanted_by(page: int, number: int, sales: Any, until: Any) -> None:
    """So many sales wait for this page now."""
    sales[page] = number
    _forget(page, len(sales), until)


@compiled(_int(_int, _Ints, _Longs, _Ints, _Longs))
def worth_most(now: int, sales: Any, since: Any, winner: Any, until: Any) -> Any:
    """The page of the greatest worth when `now` sales have come; matches whose outcome may have changed are played."""
    pages = len(sales)
    if pages == 1:
        return 0
    match = 1
    while True:
        one, other = 2 * match, 2 * match + 1
        if until[match] > now:
            if match == 1:
                return winner[1]
            match >>= 1
        elif one < pages and until[one] <= now:
            match = one
        elif other < pages and until[other] <= now:
            match = other
        else:
            first = winner[one] if one < pages else one - pages
            second = winner[other] if other < pages else other - pages
            ahead = sales[first] * (now - since[first]) - sales[second] * (now - since[second])
            if ahead < 0:
                first, second, ahead = second, first, -ahead
            winner[match] = first
            holds = _NEVER
            if sales[second] > sales[first]:
                holds = now + ahead // (sales[second] - sales[first]) + 1
            if one < pages:
                holds = min(holds, until[one])
            if other < pages:
                holds = min(holds, until[other])
            until[match] = holds
