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
    stay,
    windows,
)
from pipeline.joins.cost.prediction import Prediction
from pipeline.joins.cost.question import Question

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
    return parts or fastest(question, lambda parts: parts.h_S / parts.k, slots)


def predict(question: Question[Buffered]) -> Prediction:
    """As MESHJOIN, but H fills as fast as sales are offered; not as published."""
    parts = split(question)
    if question.settings.published:
        return in_segments(parts, question)
    R, n, k = question.R, question.stream.batch, reads_a_cycle(question.R.R_t, parts.b)
    at_once = float(question.offer)
    if question.settings.w:
        at_once = min(at_once, question.settings.w / -(-k // parts.slots))
    w = min(at_once, parts.h_S / (stay(R, question.stream) * k))
    admitting = max(1.0, min(n, parts.h_S) / max(w, at_once) + max(0.0, n - parts.h_S) / w)
    return windows(parts, w, admitting, question)


def default_buffer(question: Question[Buffered]) -> int:
    """The b that is best for 20 MB: a little behind the knee of mu(b), and good for all other budgets (2010).

    From 20 to 320 MB it forgoes at most 3 % of the best rate with the paper's costs, and 7 % with the built-in ones.
    """
    reference: Question[Buffered] = replace(question, memory=_REFERENCE, settings=_ByTheModel())
    return meshjoin.split(reference).b


def _most_slots(question: Question[Buffered]) -> int | None:
    """As published, one for each read of a cycle."""
    return None if question.settings.published else _SLOTS
