"""What `partitioned` and `ssij` ask of the master when a slot's turn has come: its page, or its keys by name."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pipeline.joins.cost.lookups import NOTHING, anywhere
from pipeline.joins.cost.question import Question, Relation, Stream
from pipeline.joins.cost.unit_costs import UnitCosts


class Slots(Protocol):
    """What is to be known of a split."""

    @property
    def d(self) -> int: ...

    @property
    def k(self) -> int: ...

    @property
    def b(self) -> int: ...

    @property
    def h_R(self) -> int: ...

    @property
    def reads_pages(self) -> bool: ...


@dataclass(frozen=True)
class Reads:
    """How often slots' turns come in a window."""

    pages: float  # whose page is not kept
    kept: float  # whose page is kept: it lacks the rows of those that wait
    sales: float  # that wait


def asking(parts: Slots, reads: Reads, question: Question[object]) -> tuple[float, float, float]:
    """Queries, rows and seconds."""
    R, stream, costs = question.R, question.stream, question.costs
    turns = max(1e-9, reads.pages + reads.kept)
    sales = reads.sales / turns
    keys, absent = (_distinct(sales * share, parts, R, stream) for share in (1 - stream.absent, stream.absent))
    if not parts.reads_pages:
        queries, seconds = _by_name(turns, keys + absent, parts, costs)
        return queries, turns * keys, seconds
    rows = reads.pages * parts.d
    seconds = reads.pages * (costs.page(parts.d) + parts.d * (costs.c_H + (costs.c_A if parts.h_R else 0.0)))
    few = _at_most(few_keys(costs), keys + absent)
    seconds += few * reads.pages * (keys + absent) * costs.beside
    # Too many to name them all in the page's query: those that stayed unmatched are asked for afterwards.
    proofs, proving = _by_name((1 - few) * reads.pages * -math.expm1(-absent), absent, parts, costs)
    kept, of_kept = _by_name(reads.kept, _distinct(sales, parts, R, stream), parts, costs)
    return reads.pages + proofs + kept, rows, seconds + proving + of_kept


def _by_name(turns: float, keys: float, parts: Slots, costs: UnitCosts) -> tuple[float, float]:
    """Queries and seconds to ask so many times for so many keys of a page."""
    if not turns:
        return 0.0, 0.0
    queries = _queries(keys, parts.b)
    blocks = NOTHING
    if costs.blocks:
        blocks = anywhere(np.array([keys / queries]), 1 + parts.d / costs.blocks.rows, np.ones(1)) * queries
    return turns * queries, turns * (queries * costs.lookup.request + costs.by_name(keys, blocks))


def _queries(keys: float, b: int) -> float:
    """For about so many keys, b a query: the mean of the numbers that are rounded up."""
    spread = math.sqrt(max(keys, 1e-9)) / 2
    return 1 + sum(0.5 * math.erfc((i * b + 0.5 - keys) / spread / math.sqrt(2)) for i in range(1, 3 + int(keys / b)))


def _distinct(sales: float, parts: Slots, R: Relation, stream: Stream) -> float:
    """Different keys among so many sales of one page."""
    zipf = stream.over(R)
    if R.order == "scattered":
        return zipf.distinct(sales * parts.k) / parts.k
    # The fullest slot's turn comes next, so all turns find about as many sales; the more wanted page has more turns.
    q = zipf.of_pages(parts.k, R.order)
    p = zipf.buckets[1]
    first = float(zipf.of_first(-np.expm1(-sales * p / max(q[0], 1e-12)), np.array([R.R_t / parts.k]))[0])
    others = -parts.d * math.expm1(-sales / parts.d)
    return float(q[0] * first + (1 - q[0]) * others)


def _at_most(most: int, mean: float) -> float:
    """How likely a number of that mean is no greater, if it comes from many independent chances (Poisson)."""
    if mean > 10 * most:
        return 0.0
    terms = np.cumprod(np.concatenate([[np.exp(-mean)], mean / np.arange(1, most + 1)]))
    return float(terms.sum())


def few_keys(costs: UnitCosts) -> int:
    """Keys that may be named in a page's query: more of them cost more than a query of their own."""
    return max(1, int(costs.lookup.request / costs.lookup.item))
