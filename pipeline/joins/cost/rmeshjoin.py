"""R-MESHJOIN: MESHJOIN's equations with a disk buffer that does not depend on the memory."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pipeline.joins.cost import meshjoin
from pipeline.joins.cost.meshjoin import (
    Buffered,
    Split,
    divide,
    fastest,
    in_segments,
    leanest,
    need,
    reads_a_cycle,
    windows,
)
from pipeline.joins.cost.prediction import Prediction
from pipeline.joins.cost.question import Question
from pipeline.joins.cost.staying import cycle

_SLOTS = 64  # admissions a cycle: with more, H would be fuller by less than a hundredth
_REFERENCE = 20_000_000  # bytes: the budget whose optimum is the default disk buffer of all budgets


@dataclass(frozen=True)
class _ByTheModel:
    b: int = 0
    w: int = 0
    k: int = 0
    published: bool = False


def least(question: Question[Buffered]) -> int:
    """As MESHJOIN's."""
    slots = _most_slots(question)
    return need(question, question.settings.b or leanest(question, slots), slots)


def split(question: Question[Buffered]) -> Split:
    """The default disk buffer, as long as it leaves half of the memory; everything else is for sales."""
    question = replace(question, memory=max(question.memory, least(question)))
    R, slots = question.R, _most_slots(question)
    a_row = question.accounting.rows(1, R.v_R, R.row_bytes)
    b = question.settings.b or min(default_buffer(question), int(question.memory / 2 / a_row))
    parts = divide(question, b, slots) if b else None
    parts = parts or fastest(question, lambda parts: parts.h_S / parts.k, slots)
    if question.settings.w or question.settings.k:
        return parts
    # Segments are so many reads apart: slots that no segment would ever be in have no sales.
    apart = -(-parts.k // parts.slots)
    return replace(parts, slots=-(-parts.k // apart))


def predict(question: Question[Buffered]) -> Prediction:
    """As MESHJOIN, but H is filled at once, and again at each segment; as published, as MESHJOIN."""
    parts = split(question)
    if question.settings.published:
        return in_segments(parts, question, -(-parts.k // parts.slots))
    R, n, k = question.R, question.stream.batch, reads_a_cycle(question.R.R_t, parts.b)
    apart = -(-k // parts.slots)
    fills = -(-k // apart)
    full = cycle(R, question.stream, fills, parts.h_S, question.fed)
    w, at_once = full.served / k, parts.h_S
    if question.settings.w:
        w, at_once = min(w, question.settings.w / apart), question.settings.w
    return windows(parts, w, 1 + max(0.0, n - at_once) / w, full.waiting / full.served, question)


def default_buffer(question: Question[Buffered]) -> int:
    """The b that is best for 20 MB: a little behind the knee of mu(b), and good for all other budgets (2010).

    From 20 to 320 MB the join itself forgoes less than 3 % of the best rate with the paper's costs and bytes, and by
    the model 7 % with the built-in ones.
    """
    reference: Question[Buffered] = replace(question, memory=_REFERENCE, settings=_ByTheModel())
    return meshjoin.split(reference).b


def _most_slots(question: Question[Buffered]) -> int | None:
    """As published, one for each read of a cycle."""
    return None if question.settings.published else _SLOTS
