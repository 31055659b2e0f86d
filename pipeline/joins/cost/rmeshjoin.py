"""R-MESHJOIN: MESHJOIN's equations with a disk buffer that does not depend on the memory."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pipeline.joins.cost import meshjoin
from pipeline.joins.cost.meshjoin import Buffered, Split, divide, leanest, need, reads_a_cycle, stay, windows
from pipeline.joins.cost.prediction import Prediction
from pipeline.joins.cost.question import Question
from pipeline.joins.cost.search import best, grid

_SLOTS = 64  # admissions a cycle: with more, H would be fuller by less than a hundredth
_REFERENCE = 20_000_000  # bytes: the budget whose optimum is the default disk buffer of all budgets


@dataclass(frozen=True)
class _ByTheModel:
    b: int = 0
    published: bool = False


def least(question: Question[Buffered]) -> int:
    """As MESHJOIN's."""
    return need(question.R, question.settings.b or leanest(question.R))


def split(question: Question[Buffered]) -> Split:
    """The default disk buffer, as long as it leaves half of the memory; everything else is for sales."""
    R, memory = question.R, max(question.memory, least(question))
    b = question.settings.b or min(default_buffer(question), int(memory / 2 / R.row_bytes))
    parts = divide(memory, R, b, _SLOTS) if b else None
    if parts is None:
        sizes = {*grid(1, memory / R.row_bytes), leanest(R)}
        possible = [parts for parts in (divide(memory, R, b, _SLOTS) for b in sorted(sizes)) if parts]
        parts = best(possible, lambda parts: parts.h_S / parts.k)
    return replace(parts, w=parts.h_S)


def predict(question: Question[Buffered]) -> Prediction:
    """As MESHJOIN, but H fills as fast as sales are offered."""
    R, n, parts = question.R, question.stream.batch, split(question)
    at_once = float(question.offer)
    stays = 1.0 if question.settings.published else stay(R, question.stream)
    w = min(at_once, parts.h_S / (stays * reads_a_cycle(R.R_t, parts.b)))
    admitting = max(1.0, min(n, parts.h_S) / max(w, at_once) + max(0.0, n - parts.h_S) / w)
    return windows(parts, w, admitting, question)


def default_buffer(question: Question[Buffered]) -> int:
    """The b that is best for 20 MB: a little behind the knee of mu(b), and good for all other budgets (2010).

    From 20 to 320 MB it forgoes at most 3 % of the best rate with the paper's costs, and 7 % with the built-in ones.
    """
    reference: Question[Buffered] = replace(question, memory=_REFERENCE, settings=_ByTheModel())
    return meshjoin.split(reference).b
