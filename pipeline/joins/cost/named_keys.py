"""Keys that are asked for by name with a page, for they were not on their own."""

from __future__ import annotations

import math

from pipeline.joins.cost.lookups import Floats

_NAMED_SHARE = 8  # one key is asked for by name, besides the oldest, for so many rows of a page
_READS = 200  # one after the other: what more of them leave is rare


def named(d: int) -> int:
    """The most keys that are asked for by name with a page of d rows."""
    return 1 + d // _NAMED_SHARE


def left_over(keys: Floats, often: Floats, most: int) -> float:
    """How often a read leaves keys to be asked for by name with the one after the next, for no more go with one.

    Each leaves about so many, by chance, behind those that were left over. Spitzer's identity says when nothing is:

        exp(-sum P(n reads leave more than n times the most) / n)
    """
    mean = float((often * keys).sum())
    variance = mean + float((often * keys**2).sum()) - mean**2
    if most <= mean or variance <= 0:
        return float(most <= mean)
    more = sum(
        math.erfc((n * (most - mean) + 1 / 2) / math.sqrt(2 * n * variance)) / 2 / n for n in range(1, _READS + 1)
    )
    return -math.expm1(-more)
