"""`auto`: a front stage before the fetching stage; where a cache gains nothing, that stage or look-ups alone.

Where no unique index says that a key has one row, MESHJOIN takes the place of all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from pipeline.joins.cost import fetch, inlj, meshjoin
from pipeline.joins.cost.frontstage import FrontStageModel
from pipeline.joins.cost.inlj import Batched
from pipeline.joins.cost.prediction import Prediction
from pipeline.joins.cost.question import Model, Question
from pipeline.joins.cost.search import best

_WORTH_A_CACHE = 1.05  # times as fast: a cache has to be filled before it pays


@dataclass(frozen=True)
class Alone:
    """A join without a cache before it."""

    model: Model[Any]
    name: str  # whose iteration it has
    remark: str

    def predict(self, question: Question[Any]) -> Prediction:
        return question.caps.held(self.model.predict(self.asked(question)))

    def asked(self, question: Question[Any]) -> Question[Any]:
        """As its model is asked: with what an iteration of its takes."""
        return replace(question, costs=question.costs.of(self.name))


@dataclass(frozen=True)
class FetchAlone(Alone):
    """Its model leaves reading a sale from the stream, c_S, to the front stage; without one it is its own work."""

    def predict(self, question: Question[Any]) -> Prediction:
        c_S = question.costs.c_S
        found = super().predict(replace(question, beside=(c_S, 0.0)))
        return found.slower(1 + max(0.0, c_S * found.mu - found.idle))


_NO_CACHE = "the memory is worth more to the sales that wait than to a cache"
LOOK_UPS = Alone(inlj, "inlj", f"takes look-ups alone: {_NO_CACHE}")
FETCH = FetchAlone(fetch, "auto", f"takes the cheapest way for each window, without a cache: {_NO_CACHE}")
SCAN = Alone(meshjoin, "meshjoin", f"scans alone: {_NO_CACHE}")


def staged(question: Question[Batched]) -> FrontStageModel:
    """The way with a cache."""
    return FrontStageModel(fetch if question.R.unique else meshjoin)


@lru_cache(maxsize=128)
def alone(question: Question[Batched]) -> Alone:
    """The best way without one. Windows that may be fetched by a scan pay where look-ups are not faster anyway."""
    if not question.R.unique:
        return SCAN
    if question.memory < fetch.least(question):
        return LOOK_UPS
    return best((LOOK_UPS, FETCH), lambda way: way.predict(question).mu)


def least(question: Question[Batched]) -> int:
    """What is needed without a cache."""
    way = LOOK_UPS if question.R.unique else SCAN
    return way.model.least(way.asked(question))


@lru_cache(maxsize=128)
def split(question: Question[Batched]) -> object:
    """How the front stage divides the memory; or, without one, how the join alone does."""
    if has_cache(question):
        return staged(question).split(question)
    way = alone(question)
    return way.model.split(way.asked(question))


def predict(question: Question[Batched]) -> Prediction:
    """Of the way that is chosen: what is chosen does not follow from the sales that come in the end."""
    if has_cache(question.as_planned):
        return staged(question).predict(question)
    way = alone(question.as_planned)
    return replace(way.predict(question), remark=way.remark)


@lru_cache(maxsize=128)
def has_cache(question: Question[Batched]) -> bool:
    """Whether a cache promises clearly more than the join alone; one of all of R does, for it spares the master."""
    with_cache = staged(question)
    if question.memory < with_cache.least(question):
        return False
    if with_cache.split(question).h_R >= question.R.R_t:
        return True
    return with_cache.predict(question).mu > _WORTH_A_CACHE * alone(question).predict(question).mu
