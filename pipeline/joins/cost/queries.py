"""Which blocks of a disk are read for queries of keys by name."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from pipeline.joins.cost.lookups import Blocks, Floats, Touched
from pipeline.joins.cost.question import Relation, Stream


@lru_cache(maxsize=1_024)
def by_query(stream: Stream, R: Relation, keys: float, sales: float, blocks: Blocks) -> Touched:
    """For so many of the different keys of so many sales; one sale's, if there is one."""
    zipf, number = stream.over(R), max(1, math.ceil(R.R_t / blocks.rows))
    p = zipf.buckets[1]
    wanted = -np.expm1(-sales * (1 - stream.absent) * p) - np.expm1(-sales * stream.absent * p)
    wanted *= keys / (zipf.buckets[0] * wanted).sum()
    if R.order == "by frequency":
        counts, of_a_block = zipf.on_many_pages(wanted, number)
    elif blocks.pooled:
        of_a_block = zipf.on_pages(wanted, number)
        counts = np.ones(number)
    else:
        counts, of_a_block = np.array([float(number)]), np.array([keys / number])
    touched = -np.expm1(keys * np.log1p(-np.minimum(of_a_block / keys, 1 - 1e-12)))
    touched *= _not_pooled(counts, touched, blocks.pooled)
    runs = (counts * touched * (1 - touched)).sum() if keys > 1 else (counts * touched).sum()
    return Touched(float((counts * touched).sum()), max(float(touched.max()), float(runs)))


def _not_pooled(counts: Floats, touched: Floats, pooled: int) -> Floats:
    """How likely a block is not among those used last: a query wants each independently of the one before.

    A block stays for so many queries as want `pooled` different ones.
    """
    if not pooled:
        return np.ones_like(touched)
    if pooled >= counts.sum():
        return np.zeros_like(touched)
    low, high = 0.0, 50.0  # of the logarithm of that number
    rate = -np.log1p(-np.minimum(touched, 1 - 1e-12))
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if (counts * -np.expm1(-rate * math.exp(middle))).sum() < pooled else (low, middle)
    stays: Floats = np.exp(-rate * math.exp(low))
    return stays
