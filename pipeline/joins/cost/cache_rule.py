"""Which rows of R belong in memory, and how little memory a rate takes at the least: a bound, whatever the join.

A row that is kept takes v_R bytes. If it is not, its sales wait for it: rate * p of them a second, for T seconds each,
with v_S bytes a sale. So it belongs in memory if

    v_R < rate * p * T * v_S

and with this rule a rate takes the least memory, for all distributions p of the sales. That is how we read the "cache
inequality" of SSBJ (Naeem, Weber, Lutteroth: A Memory-Optimal Many-to-Many Semi-Stream Join, Distributed and Parallel
Databases 2019), of which only the abstract is at hand. T and the bytes are ours: a sale waits for half a scan of R in
the mean, and takes no more than its key and its place, a row no more than itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipeline.joins.cost.question import Relation, Stream
from pipeline.joins.cost.search import grid
from pipeline.joins.cost.unit_costs import UnitCosts

_STEPS = 400  # numbers of rows looked at, in equal ratios: with them the least is found to a thousandth


@dataclass(frozen=True)
class LeastMemory:
    """For a rate, in bytes; None: the rate is beyond any memory."""

    scanned: int | None  # what is not kept is waited for until the scan of R comes by
    by_name: int | None  # it is asked for by name; then nobody has to wait


def best_hits(memory: float, R: Relation, stream: Stream) -> float:
    """p_N: the share of the sales that rows in memory serve at most: those most wanted, and nothing else there."""
    return stream.hits(min(float(R.R_t), memory / R.v_R), R)


def least_memory(rate: float, R: Relation, stream: Stream, costs: UnitCosts) -> LeastMemory:
    """`rate`: sales a second of the join's own time."""
    kept = np.array([0, *grid(1, R.R_t, _STEPS)])
    missed = np.array([1 - stream.hits(h_R, R) for h_R in kept])
    for_reads = 1 - rate * (costs.c_S + costs.c_O)  # the share of its time that is left
    if for_reads <= 0:
        return LeastMemory(None, None)
    T = R.R_t * costs.scan.item / for_reads / 2
    waiting = missed * rate * T * v_S(R)
    enough = np.flatnonzero(missed * rate * costs.overlapped.item <= for_reads)
    return LeastMemory(
        scanned=int((kept * R.v_R + waiting).min()),
        by_name=int(kept[enough[0]] * R.v_R) if len(enough) else None,
    )


def v_S(R: Relation) -> float:
    """A waiting sale's key and its place."""
    return 8.0 * R.words + 8
