"""MESHJOIN (meshjoin-icde2007 section 3.2, meshjoin-default-vs-optimal-2010 section 3).

The papers count b in pages, we in rows: v_P / v_R = 1, and N_R is R_t. A cycle over R takes k reads.

Beside their equations (published/meshjoin.py): in 1 the w sales of an iteration are among those of H, one size of ours
stands for f v_S + sizeof(ptr), and Q has a slot a segment; in 2 the results are w, not sigma b v_P / v_R, and `loop` is
added; R's end costs a read. With equal costs and bytes b* is theirs, less than 3 % larger from 40 MB on and 5 % at
20 MB, for the slots and because w is whole; `split` looks at 40 sizes, and forgoes a thousandth of the best rate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from pipeline.joins.cost.prediction import Prediction
from pipeline.joins.cost.question import Question, Relation, Stream
from pipeline.joins.cost.search import best, grid
from pipeline.joins.cost.unit_costs import UnitCosts
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
    def published(self) -> bool:
        """A sale stays for its whole cycle."""
        ...


@dataclass(frozen=True)
class Split:
    """M = b * v_R + slots * v_Q + h_S * v_S; the w sales that the stream buffer takes are among the h_S."""

    b: int  # rows a read
    k: int  # reads a cycle
    slots: int  # segments in Q
    w: int  # sales a segment
    h_S: int  # sales in H
    bytes: dict[str, int]


def least(question: Question[Buffered]) -> int:
    """The bytes without which nothing goes.

    Fewer rows a read are more reads a cycle, and a read that serves less than one sale is worse than to ask for that
    sale: so H has room for k sales at least, and the memory cannot be as small as one likes.
    """
    return need(question.R, question.settings.b or leanest(question.R))


@lru_cache(maxsize=1_024)
def split(question: Question[Buffered]) -> Split:
    """The b that maximises mu, found by looking, for c_IO is measured and no formula.

    With too little memory the answer is as for the least: it is the join that refuses.
    """
    memory, R = max(question.memory, least(question)), question.R
    splits = [divide(memory, R, b) for b in _buffers(question)]
    return best((parts for parts in splits if parts), lambda parts: service_rate(parts, R, question.costs))


def predict(question: Question[Buffered]) -> Prediction:
    """mu = w / c_loop (equation 3), for windows after which nothing may be pending.

    A window of n sales takes n / w iterations and, with no sale following, k - 1 more until its last segment has met
    all of R. An endless window (`batch=math.inf`) is the papers' case.
    """
    parts, n = split(question), question.stream.batch
    w = parts.slots * parts.w / _reads(parts, question.R)
    return windows(parts, w, max(1.0, n / w), question)


def divide(memory: float, R: Relation, b: int, most_slots: int | None = None) -> Split | None:
    """Equation 1 solved for w, as equation 3 of 2010 does: what is left beside b rows is for sales. None: too little.

    As published Q has k slots; where these would take much of a small memory, fewer.
    """
    if memory < need(R, b):
        return None
    k = reads_a_cycle(max(R.R_t, _LEAST_ROWS), b)
    beside = memory - b * R.row_bytes
    affordable = int(min(beside - _sales_bytes(k, R), memory / _QUEUE_SHARE) / slot_bytes(R.words))
    slots = min(k, max(_LEAST_SLOTS, affordable), most_slots or k)
    h_S = WaitingSales.capacity_for(beside - slots * slot_bytes(R.words), R.words, beside=_MARK)
    sizes = {"disk buffer": b * R.row_bytes, "Q": slots * slot_bytes(R.words), "H": _sales_bytes(h_S, R)}
    return Split(b, k, slots, h_S // slots, h_S, {part: int(size) for part, size in sizes.items()})


def windows(parts: Split, w: float, admitting: float, question: Question[object]) -> Prediction:
    """`w` sales an iteration while there are more; `admitting` iterations that admit some."""
    R, stream = question.R, question.stream
    k = _reads(parts, R)
    b = R.R_t / k
    if math.isfinite(stream.batch):
        w = stream.batch / (admitting + k - 1)
    seconds = c_loop(b, w, question.costs)
    return Prediction(
        split=parts.bytes,
        parameters={"w": parts.w, "b": parts.b, "k": k, "h_S": parts.h_S},
        mu=w / seconds,
        processing_time=seconds * k * stay(R, stream),
        queries=1 / seconds,
        rows=b / seconds,
    )


def stay(R: Relation, stream: Stream) -> float:
    """Cycles until a sale is served: half of one in the mean, if it leaves with its row; else a whole one."""
    return (1 + stream.absent) / 2 if R.unique else 1.0


def c_loop(b: float, w: float, costs: UnitCosts) -> float:
    """Equation 2, with a term for what an iteration takes whatever it does.

    Every sale is put out once: sigma * b, the results of one iteration, is w.
    """
    return (
        costs.scan(b)  # c_IO(b)
        + costs.loop
        + w * (costs.c_E + costs.c_S + costs.c_A + costs.c_O)
        + b * costs.c_H
    )


def service_rate(parts: Split, R: Relation, costs: UnitCosts) -> float:
    """mu = w / c_loop (equation 3) in the steady state, when H is full."""
    k = _reads(parts, R)
    w = parts.slots * parts.w / k
    return w / c_loop(R.R_t / k, w, costs)


def reads_a_cycle(rows: int, b: int) -> int:
    """k: the end of R is known by a read that brings fewer than b rows, if need be none.

    >>> reads_a_cycle(10, 3), reads_a_cycle(9, 3), reads_a_cycle(0, 3)
    (4, 4, 1)
    """
    return rows // b + 1


def need(R: Relation, b: int) -> int:
    """Bytes for a disk buffer of b rows and all that goes with it."""
    k = reads_a_cycle(max(R.R_t, _LEAST_ROWS), b)
    queue = min(k, _LEAST_SLOTS) * slot_bytes(R.words)
    return math.ceil(b * R.row_bytes + queue + _sales_bytes(k, R))


def leanest(R: Relation) -> int:
    """The b that needs the least memory."""
    return min(grid(1, max(R.R_t, _LEAST_ROWS) + 1), key=lambda b: need(R, b))


def _buffers(question: Question[Buffered]) -> list[int]:
    """Sizes of the disk buffer worth looking at; or the one that is set."""
    R = question.R
    if question.settings.b:
        return [question.settings.b]
    most = min(max(R.R_t, _LEAST_ROWS) + 1, question.memory / R.row_bytes)
    return sorted({*grid(1, most), leanest(R)})


def _reads(parts: Split, R: Relation) -> int:
    return reads_a_cycle(R.R_t, parts.b)


def _sales_bytes(h_S: int, R: Relation) -> int:
    return WaitingSales.bytes_for(h_S, R.words, beside=_MARK)
