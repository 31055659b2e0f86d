"""MESHJOIN and R-MESHJOIN (meshjoin-icde2007 section 3.2, meshjoin-default-vs-optimal-2010 section 3).

The papers count b in pages, we in rows: v_P / v_R = 1, and N_R is R_t. A cycle over R takes k reads.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from pipeline.joins.cost.units import Prediction, Relation, Stream, UnitCosts, best, grid
from pipeline.joins.parts.cycle import slot_bytes
from pipeline.joins.parts.waiting import WaitingSales

_MARK = 1  # byte a sale: it has met a row
_LEAST_ROWS = 1_000  # R is taken to have as many: an empty table may grow
_LEAST_SLOTS = 16
_REDUCED_SLOTS = 64  # admissions a cycle: with more, H would be fuller by less than a hundredth
_QUEUE_SHARE = 8  # Q takes at most one part of so many of the memory
_REFERENCE = 20_000_000  # bytes: the budget whose optimum is the default disk buffer of all budgets
_OFFER_SHARE, _LONGEST_OFFER = 15, 16_384  # most sales of one offer: see Join


@dataclass(frozen=True)
class Split:
    """M = b * v_R + slots * v_Q + h_S * v_S; the w sales that the stream buffer takes are among the h_S."""

    b: int  # rows a read
    k: int  # reads a cycle
    slots: int  # segments in Q
    w: int  # sales a segment
    h_S: int  # sales in H
    bytes: dict[str, int]


def reads_a_cycle(rows: int, b: int) -> int:
    """k: the end of R is known by a read that brings fewer than b rows, if need be none.

    >>> reads_a_cycle(10, 3), reads_a_cycle(9, 3), reads_a_cycle(0, 3)
    (4, 4, 1)
    """
    return rows // b + 1


def least(relation: Relation) -> int:
    """The bytes without which nothing goes.

    Fewer rows a read are more reads a cycle, and a read that serves less than one sale is worse than to ask for that
    sale: so H has room for k sales at least, and the memory cannot be as small as one likes.
    """
    return _need(relation, _leanest(relation))


def divide(memory: float, relation: Relation, b: int, reduced: bool = False) -> Split | None:
    """Equation 1 solved for w, as equation 3 of 2010 does: what is left beside b rows is for sales. None: too little.

    As published Q has k slots; where these would take much of a small memory, fewer. r-meshjoin needs only some.
    """
    if memory < _need(relation, b):
        return None
    k = reads_a_cycle(max(relation.R_t, _LEAST_ROWS), b)
    beside = memory - b * relation.row_bytes
    affordable = int(min(beside - _sales_bytes(k, relation), memory / _QUEUE_SHARE) / slot_bytes(relation.words))
    slots = min(k, max(_LEAST_SLOTS, affordable), _REDUCED_SLOTS if reduced else k)
    h_S = _sales_in(beside - slots * slot_bytes(relation.words), relation)
    sizes = {
        "disk buffer": b * relation.row_bytes,
        "Q": slots * slot_bytes(relation.words),
        "H": _sales_bytes(h_S, relation),
    }
    w = h_S if reduced else h_S // slots
    return Split(b, k, slots, w, h_S, {part: int(size) for part, size in sizes.items()})


@lru_cache(maxsize=1_024)
def split(memory: int, relation: Relation, costs: UnitCosts) -> Split:
    """meshjoin: the b that maximises mu, found by looking, for c_IO is measured and no formula.

    With too little memory the answer is as for the least: it is the join that refuses.
    """
    memory = max(memory, least(relation))
    return best(_splits(memory, relation), lambda parts: service_rate(parts, relation, costs))


@lru_cache(maxsize=1_024)
def split_reduced(memory: int, relation: Relation, costs: UnitCosts) -> Split:
    """r-meshjoin: the default disk buffer, as long as it leaves half of the memory; everything else is for sales."""
    memory = max(memory, least(relation))
    b = min(default_buffer(relation, costs), int(memory / 2 / relation.row_bytes))
    parts = divide(memory, relation, b, reduced=True) if b else None
    return parts or best(_splits(memory, relation, reduced=True), lambda parts: parts.h_S / parts.k)


def default_buffer(relation: Relation, costs: UnitCosts) -> int:
    """The b that is best for 20 MB: a little behind the knee of mu(b), and good for all other budgets (2010)."""
    return split(max(_REFERENCE, least(relation)), relation, costs).b


def c_loop(b: float, w: float, waiting: float, costs: UnitCosts) -> float:
    """Equation 2, with a term for passing over the waiting sales when a match is made.

    Every sale is put out once: sigma * b, the results of one iteration, is w.
    """
    return (
        costs.scan(b)  # c_IO(b)
        + costs.loop
        + w * (costs.c_E + costs.c_S + costs.c_A + costs.c_O)
        + b * costs.c_H
        + waiting * costs.c_W
    )


def predict(memory: int, relation: Relation, stream: Stream, costs: UnitCosts) -> Prediction:
    """meshjoin: mu = w / c_loop (equation 3), for windows after which nothing may be pending.

    A window of n sales takes n / w iterations and, with nobody following, k - 1 more until its last segment has met
    all of R. An endless window (`batch=math.inf`) is the papers' case.
    """
    parts = split(memory, relation, costs)
    w, n = parts.slots * parts.w / _reads(parts, relation), stream.batch
    admitting = max(1.0, n / w)
    return _predict("meshjoin", memory, parts, w, admitting, relation, stream, costs)


def predict_reduced(
    memory: int, relation: Relation, stream: Stream, costs: UnitCosts, unique: bool = True
) -> Prediction:
    """r-meshjoin: as meshjoin, but H fills as fast as sales are offered.

    With a unique key a sale leaves when it meets its row, after half a cycle; an absent one after a whole cycle.
    """
    parts = split_reduced(memory, relation, costs)
    stay = (1 + stream.absent) / 2 if unique else 1.0
    offer = min(_LONGEST_OFFER, memory / _OFFER_SHARE / (8 * relation.words + 64))
    w, n = min(offer, parts.h_S / (stay * _reads(parts, relation))), stream.batch
    admitting = max(1.0, min(n, parts.h_S) / max(w, offer) + max(0.0, n - parts.h_S) / w)
    return _predict("r-meshjoin", memory, parts, w, admitting, relation, stream, costs)


def _predict(
    name: str,
    memory: int,
    parts: Split,
    w: float,
    admitting: float,
    relation: Relation,
    stream: Stream,
    costs: UnitCosts,
) -> Prediction:
    """`w` sales an iteration while there are more; `admitting` iterations that admit some."""
    k = _reads(parts, relation)
    b, waiting = relation.R_t / k, float(parts.h_S)
    if math.isfinite(stream.batch):
        iterations = admitting + k - 1
        w = stream.batch / iterations
        waiting = min(waiting, w * k)
    seconds = c_loop(b, w, waiting, costs)
    return Prediction(
        algorithm=name,
        memory=memory,
        split=parts.bytes,
        parameters={"w": parts.w, "b": parts.b, "k": k, "h_S": parts.h_S},
        mu=w / seconds,
        processing_time=seconds * k * (1 + stream.absent) / 2,
        queries=1 / seconds,
        rows=b / seconds,
    )


def service_rate(parts: Split, relation: Relation, costs: UnitCosts) -> float:
    """mu = w / c_loop (equation 3) of meshjoin in its steady state, when H is full."""
    k = _reads(parts, relation)
    w = parts.slots * parts.w / k
    return w / c_loop(relation.R_t / k, w, parts.h_S, costs)


def _reads(parts: Split, relation: Relation) -> int:
    return reads_a_cycle(relation.R_t, parts.b)


def _splits(memory: float, relation: Relation, reduced: bool = False) -> list[Split]:
    splits = [divide(memory, relation, b, reduced) for b in _buffers(relation, memory)]
    return [parts for parts in splits if parts]


def _buffers(relation: Relation, memory: float) -> list[int]:
    """Sizes of the disk buffer worth looking at."""
    most = min(max(relation.R_t, _LEAST_ROWS) + 1, memory / relation.row_bytes)
    return sorted({*grid(1, most), _leanest(relation)})


def _leanest(relation: Relation) -> int:
    """The b that needs the least memory."""
    return min(grid(1, max(relation.R_t, _LEAST_ROWS) + 1), key=lambda b: _need(relation, b))


def _need(relation: Relation, b: int) -> int:
    k = reads_a_cycle(max(relation.R_t, _LEAST_ROWS), b)
    queue = min(k, _LEAST_SLOTS) * slot_bytes(relation.words)
    return math.ceil(b * relation.row_bytes + queue + _sales_bytes(k, relation))


def _sales_bytes(h_S: int, relation: Relation) -> int:
    return WaitingSales.bytes_for(h_S, relation.words, beside=_MARK)


def _sales_in(memory: float, relation: Relation) -> int:
    return WaitingSales.capacity_for(memory, relation.words, beside=_MARK)
