"""Which blocks of a disk are read for queries of keys by name."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from pipeline.joins.cost.asked_keys import AskedKeys
from pipeline.joins.cost.lookups import Blocks, Floats, Touched
from pipeline.joins.cost.question import Relation, Stream
from pipeline.joins.cost.search import crossing

_LONG = 1e21  # more queries than a block stays in the pool


@lru_cache(maxsize=1_024)
def by_query(stream: Stream, R: Relation, asked: AskedKeys, share: float, blocks: Blocks) -> Touched:
    """For a query, or an answer, of such a share of these keys."""
    if not R.unique:
        anywhere = blocks.chained or R.order == "scattered"
        return (_rows_anywhere if anywhere else _rows_together)(R, asked, share, blocks)
    zipf, number = stream.over(R), max(1, math.ceil(R.R_t / blocks.rows))
    wanted = share * asked.often.reshape(-1, len(zipf.buckets[0])).sum(axis=0)  # with a row and without
    keys = share * asked.keys
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


def _rows_together(R: Relation, asked: AskedKeys, share: float, blocks: Blocks) -> Touched:
    """A key's rows lie one behind the other: a run of blocks, of which it shares the first and the last."""
    rows = np.maximum(1.0, asked.rows)
    of_a_key = 1 + (rows - 1) / blocks.rows
    counts = asked.number * rows / blocks.rows
    touched = -np.expm1(-share * asked.often * of_a_key * blocks.rows / rows)
    read = counts * touched * _not_pooled(counts, touched, blocks.pooled)
    alone = 1 - min(1.0, float(read.sum()) * blocks.rows / R.R_t)
    at_once = np.minimum(rows, max(1.0, share * asked.looked_for))  # a key with more rows comes in several answers
    of_an_answer = 1 + (at_once - 1) / blocks.rows
    return Touched(float(read.sum()), float((read / of_an_answer).sum()) * alone + 1 - alone)


def _rows_anywhere(R: Relation, asked: AskedKeys, share: float, blocks: Blocks) -> Touched:
    """Each row lies in a block of its own choice."""
    number = max(1 + 1e-9, R.R_t / blocks.rows)
    touched = number * -math.expm1(share * asked.looked_for * math.log1p(-1 / number))
    read = touched * _rows_not_pooled(number, asked, share, blocks)
    return Touched(read, read if blocks.chained else read * (1 - max(0.0, read - 1) / number))


def _not_pooled(counts: Floats, touched: Floats, pooled: int) -> Floats:
    """How likely a block is not among those used last: a query wants each independently of the one before.

    A block stays for so many queries as want `pooled` different ones.
    """
    if not pooled:
        return np.ones_like(touched)
    if pooled >= counts.sum():
        return np.zeros_like(touched)
    rate = -np.log1p(-np.minimum(touched, 1 - 1e-12))
    queries = crossing(lambda n: float((counts * -np.expm1(-rate * n)).sum()), pooled, 1.0, _LONG)
    stays: Floats = np.exp(-rate * queries)
    return stays


def _rows_not_pooled(number: float, asked: AskedKeys, share: float, blocks: Blocks) -> float:
    """The same of a row's block, where its other rows are any others: after so many queries

        (1 - mean of exp(-often * queries)) ** rows of a block

    of the blocks have not been wanted.
    """
    if not blocks.pooled:
        return 1.0
    if blocks.pooled >= number:
        return 0.0
    rows, often = asked.number * asked.rows, share * asked.often
    every = rows.sum()

    def not_wanted(queries: float) -> float:
        return float((rows * np.exp(-often * queries)).sum() / every)

    queries = crossing(lambda n: number * (1 - not_wanted(n) ** blocks.rows), blocks.pooled, 1.0, _LONG)
    wanted = rows * often
    alone = float((wanted * np.exp(-often * queries)).sum() / wanted.sum())
    beside = math.exp((blocks.rows - 1) * math.log(not_wanted(queries)))
    return alone * beside
