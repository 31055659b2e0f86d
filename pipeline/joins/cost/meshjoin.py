"""MESHJOIN (meshjoin-icde2007 section 3.2, meshjoin-default-vs-optimal-2010 section 3).

The papers count b in pages, we in rows: v_P / v_R = 1, and N_R is R_t. A cycle over R takes k reads.

Beside their equations (published/meshjoin.py): in 1 the w sales of an iteration are among those of H, one size of ours
stands for f v_S + sizeof(ptr), and Q has a slot a segment; in 2 sigma b v_P / v_R, the results, are those of w sales,
and `loop` is added; R's end costs a read. With the papers' accounting h_S is theirs to the sale, and b* to a hundredth.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol

from pipeline.joins.cost.prediction import Prediction
from pipeline.joins.cost.question import Question, Relation
from pipeline.joins.cost.search import peak
from pipeline.joins.cost.staying import until_served
from pipeline.joins.parts.budget import most_that_fit
from pipeline.joins.parts.cycle import slot_bytes
from pipeline.joins.parts.waiting import WaitingSales

_MARK = 1  # byte a sale: it has met a row
_LEAST_ROWS = 1_000  # R is taken to have as many: an empty table may grow
_LEAST_SLOTS = 16
_QUEUE_SHARE = 8  # Q takes at most one part of so many of the memory


class Buffered(Protocol):
    """Settings of an algorithm with a disk buffer."""

    @property
    def b(self) -> int:
        """Rows a read; 0: as the model finds best."""
        ...

    @property
    def w(self) -> int:
        """Sales a segment; 0: as many as there is room for."""
        ...

    @property
    def k(self) -> int:
        """Segments in Q; 0: as the model finds best."""
        ...

    @property
    def published(self) -> bool:
        """A sale stays for its whole cycle, and comes in by a stream buffer."""
        ...


@dataclass(frozen=True)
class Split:
    """M = b * v_R + slots * v_Q + h_S * v_S; the w sales that the stream buffer takes are among the h_S."""

    b: int  # rows a read
    k: int  # reads a cycle
    slots: int  # segments in Q
    h_S: int  # sales in H
    bytes: dict[str, int]

    @property
    def w(self) -> float:
        """Sales a segment, in the mean: some have one more than others, so that H is full."""
        return self.h_S / self.slots


def least(question: Question[Buffered]) -> int:
    """The bytes without which nothing goes.

    Fewer rows a read are more reads a cycle, and a read that serves less than one sale is worse than to ask for that
    sale: so H has room for k sales at least, and the memory cannot be as small as one likes.
    """
    return need(question, question.settings.b or leanest(question))


@lru_cache(maxsize=1_024)
def split(question: Question[Buffered]) -> Split:
    """The b that maximises mu, found by looking, for c_IO is measured and no formula.

    With too little memory the answer is as for the least: it is the join that refuses.
    """
    return fastest(with_enough(question), lambda parts: service_rate(parts, question))


def predict(question: Question[Buffered]) -> Prediction:
    """mu = w / c_loop (equation 3), for windows after which nothing may be pending.

    A window of n sales takes n / w iterations and, with no sale following, k - 1 more until its last segment has met
    all of R. An endless window (`batch=math.inf`) is the papers' case.
    """
    return in_segments(split(question), question)


def in_segments(parts: Split, question: Question[Buffered], apart: int = 1) -> Prediction:
    """What comes of a split if each iteration waits for its w sales; segments are so many reads apart."""
    k, R, stream = _reads(parts, question.R), question.R, question.stream
    w, reads = parts.h_S / k, -(-k // apart)
    return windows(parts, w, max(1.0, stream.batch / w), until_served(R, stream, reads, parts.slots), question)


def with_enough(question: Question[Buffered]) -> Question[Buffered]:
    """The question, with the least memory if it has less."""
    return replace(question, memory=max(question.memory, least(question)))


def fastest(question: Question[Buffered], rate: Callable[[Split], float], most_slots: int | None = None) -> Split:
    """The split of the greatest rate; or that of the b that is set. There must be enough memory for one."""

    def value(k: int) -> tuple[float, float]:
        # Where the memory is too small for any rate, towards the b that needs least.
        b = _least_buffer(k, question.R)
        parts = divide(question, b, most_slots)
        return (rate(parts), 0.0) if parts else (0.0, -need(question, b, most_slots))

    b = question.settings.b or _least_buffer(peak(value, 1, _rows(question.R) + 1), question.R)
    parts = divide(question, b, most_slots) or divide(question, leanest(question, most_slots), most_slots)
    assert parts, "less memory than the least"
    return parts


def divide(question: Question[Buffered], b: int, most_slots: int | None = None) -> Split | None:
    """Equation 1 solved for w, as equation 3 of 2010 does: what is left beside b rows is for sales. None: too little.

    As published Q has k slots; where these would take much of a small memory, fewer.
    """
    memory, R, settings = question.memory, question.R, question.settings
    if memory < need(question, b, most_slots):
        return None
    k = reads_a_cycle(_rows(R), b)
    beside = memory - _buffer_bytes(question, b)
    slots, slot = _slots(question, k, most_slots), question.accounting.beside(slot_bytes(R.words))
    if slot and not settings.k and not settings.w:
        most = min(beside - _sales_bytes(question, k, b, min(k, _LEAST_SLOTS)), memory / _QUEUE_SHARE)
        slots = min(slots, max(_LEAST_SLOTS, int(most / slot)))
    for_sales = beside - slots * slot
    h_S = settings.w * slots or most_that_fit(
        for_sales, lambda number: _sales_bytes(question, number, b, slots), int(for_sales)
    )
    sizes = {
        "disk buffer": _buffer_bytes(question, b),
        "Q": slots * slot,
        "H": _sales_bytes(question, h_S, b, slots),
    }
    return Split(b, k, slots, h_S, {part: int(size) for part, size in sizes.items()})


def windows(parts: Split, w: float, admitting: float, stays: float, question: Question[object]) -> Prediction:
    """`w` sales an iteration while there are more; `admitting` iterations admit some; cycles until one is served."""
    R, stream, k = question.R, question.stream, _reads(parts, question.R)
    b = R.R_t / k
    if math.isfinite(stream.batch):
        w = stream.batch / (admitting + k - 1)
    seconds = c_loop(b, w, parts.h_S, question)
    return Prediction(
        split=parts.bytes,
        parameters={"w": parts.w, "b": parts.b, "k": k, "h_S": parts.h_S},
        mu=w / seconds,
        processing_time=seconds * k * stays,
        queries=1 / seconds,
        rows=b / seconds,
    )


def c_loop(b: float, w: float, h_S: int, question: Question[object]) -> float:
    """Equation 2, with a term for what an iteration takes whatever it does.

    sigma b, the results of an iteration, are those of the w sales that leave: one of each if R has its key once. Where
    they are more than H has room for, it takes several.
    """
    stream, costs = question.stream, question.costs
    results = stream.absent + (1 - stream.absent) * stream.results.mean
    return (
        costs.scan(b)  # c_IO(b)
        + costs.loop * max(1.0, w * results / h_S)
        + w * (costs.c_E + costs.c_S + costs.c_A + results * costs.c_O)
        + b * costs.c_H
    )


def service_rate(parts: Split, question: Question[object]) -> float:
    """mu = w / c_loop (equation 3) in the steady state, when H is full."""
    R = question.R
    k = _reads(parts, R)
    w = parts.h_S / k
    return w / c_loop(R.R_t / k, w, parts.h_S, question)


def reads_a_cycle(rows: int, b: int) -> int:
    """k: the end of R is known by a read that brings fewer than b rows, if need be none.

    >>> reads_a_cycle(10, 3), reads_a_cycle(9, 3), reads_a_cycle(0, 3)
    (4, 4, 1)
    """
    return rows // b + 1


def need(question: Question[Buffered], b: int, most_slots: int | None = None) -> int:
    """Bytes for a disk buffer of b rows and all that goes with it: w sales for each slot of Q, if these are set."""
    R, settings = question.R, question.settings
    k = reads_a_cycle(_rows(R), b)
    slots = _slots(question, k, most_slots)
    if not settings.k and not settings.w:
        slots = min(slots, _LEAST_SLOTS)
    sales = _sales_bytes(question, settings.w * slots or k, b, slots)
    return math.ceil(_buffer_bytes(question, b) + slots * question.accounting.beside(slot_bytes(R.words)) + sales)


def leanest(question: Question[Buffered], most_slots: int | None = None) -> int:
    """The b that needs the least memory."""
    R = question.R
    k = peak(lambda k: -need(question, _least_buffer(k, R), most_slots), 1, _rows(R) + 1)
    return _least_buffer(k, R)


def _rows(R: Relation) -> int:
    return max(R.R_t, _LEAST_ROWS)


def _least_buffer(k: int, R: Relation) -> int:
    """The smallest b with which k reads are enough for a cycle: a larger one is no better until they are k - 1."""
    return _rows(R) // k + 1


def _slots(question: Question[Buffered], k: int, most: int | None) -> int:
    return min(k, question.settings.k or most or k)


def _reads(parts: Split, R: Relation) -> int:
    return reads_a_cycle(R.R_t, parts.b)


def _buffer_bytes(question: Question[Buffered], b: int) -> float:
    return question.accounting.rows(b, question.R.v_R, b * question.R.row_bytes)


def _sales_bytes(question: Question[Buffered], h_S: int, b: int, slots: int) -> float:
    """H, and the stream buffer: as published, where the w sales of an iteration are copied from it."""
    R = question.R
    taken = WaitingSales.bytes_for(h_S, R.words, beside=_MARK)
    if question.settings.published:
        taken += -(-h_S // slots) * (8 + 8 * R.words)
    return question.accounting.sales(h_S, taken, arriving=h_S * b / _rows(R))
