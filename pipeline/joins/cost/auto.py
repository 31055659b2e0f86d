"""`auto`: a front stage before the fetching stage; where the memory is too small to gain by a cache, look-ups alone."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from pipeline.joins.cost import fetch, inlj
from pipeline.joins.cost.frontstage import FrontStageModel
from pipeline.joins.cost.inlj import Batched
from pipeline.joins.cost.prediction import Prediction
from pipeline.joins.cost.question import Question

STAGED = FrontStageModel(fetch)
_WORTH_A_CACHE = 1.2  # times as fast: a cache has to be filled before it pays
_PLAIN = "takes look-ups alone: so little memory is worth more to the sales in hand than to a cache"


def least(question: Question[Batched]) -> int:
    """What look-ups need."""
    return inlj.least(question)


@lru_cache(maxsize=128)
def split(question: Question[Batched]) -> object:
    """How the front stage divides the memory; or, without one, how the look-ups do."""
    return STAGED.split(question) if has_cache(question) else inlj.split(question)


def predict(question: Question[Batched]) -> Prediction:
    """Of the way that is chosen: what is chosen does not follow from the sales that come in the end."""
    if has_cache(question.as_planned):
        return STAGED.predict(question)
    return replace(inlj.predict(plain(question)), remark=_PLAIN)


@lru_cache(maxsize=128)
def has_cache(question: Question[Batched]) -> bool:
    """Whether a cache promises clearly more than look-ups alone; one of all of R does, for it spares the master."""
    if question.memory < STAGED.least(question):
        return False
    if STAGED.split(question).h_R >= question.R.R_t:
        return True
    return STAGED.predict(question).mu > _WORTH_A_CACHE * inlj.predict(plain(question)).mu


def plain(question: Question[Batched]) -> Question[Batched]:
    """The question as the look-ups alone are asked it: with what an iteration of theirs takes."""
    return replace(question, costs=question.costs.of("inlj"))
