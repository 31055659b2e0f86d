"""Reads of pages as published, where sales may have no row: each key without one costs a read, when its turn comes."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from pipeline.joins.cost.page_reads import Load, grouped
from pipeline.joins.cost.question import Relation, Stream


@lru_cache(maxsize=1_024)
def lone_reads(stream: Stream, R: Relation, pages: int, h_S: int, l: int, first: bool) -> Load:  # noqa: E741
    """As `page_reads`, of an endless stream.

    A key without a row, wanted with share p, is read for every 1 / p + T sales. Its page serves whoever else waits for
    it: those that do not wait for T sales then, but until the first such read, if they come a share alpha of all sales.
    """
    there, zipf = grouped(stream.over(R).about(), R.order, pages, l, first), stream.over(R)
    rows, p = zipf.buckets
    p, q, counts = stream.absent * p, there.q * (1 - stream.absent), there.counts
    low, high = h_S / 2, 1_000.0 * h_S  # a page read for so many keys keeps few of its own sales waiting
    for _ in range(24):
        T = (low * high) ** 0.5
        lone = float((rows * p / (1 + p * T)).sum())
        if R.order == "by frequency":
            alpha = stream.absent * there.q / (1 + stream.absent * there.q * T * pages / R.R_t)
        else:
            alpha = np.full(len(q), lone / pages)
        alpha = np.maximum(alpha, 1e-9 / T)
        left = np.exp(-alpha * T)
        waits, squared = (1 - left) / alpha, 2 / alpha**2 * (1 - left * (1 + alpha * T))
        turns = counts * q / (1 + q * waits)
        waiting = (turns * (waits + q * squared / 2)).sum() + (rows * p * T * (1 + p * T / 2) / (1 + p * T)).sum()
        low, high = (T, high) if waiting < h_S else (low, T)
    reads = float((turns * left).sum()) + lone
    hits = stream.batch * there.resident * (1 - stream.absent)
    return Load(stream.batch, hits, reads * stream.batch, float(h_S))
