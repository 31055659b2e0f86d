"""`auto`: a front stage before the fetching stage; where the memory is too small to gain by a cache, look-ups alone.

Where no unique index says that a key has one row, MESHJOIN takes the place of both.
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

_WORTH_A_CACHE = 1.2  # times as fast: a cache has to be filled before it pays
_PLAIN = "takes look-ups alone: so little memory is worth more to the sales in hand than to a cache"
_SCAN = "scans alone: so little memory is worth more to the sales that wait than to a cache"


@dataclass(frozen=True)
class Ways:
    """What `auto` may do on a table: with a cache, and without."""

    staged: FrontStageModel
    alone: Model[Any]
    name: str  # of the one without
    remark: str

    def without_cache(self, question: Question[Any]) -> Question[Any]:
        """The question as the join alone is asked it: with what an iteration of its takes."""
        return replace(question, costs=question.costs.of(self.name))


INDEXED = Ways(FrontStageModel(fetch), inlj, "inlj", _PLAIN)
SCANNED = Ways(FrontStageModel(meshjoin), meshjoin, "meshjoin", _SCAN)


def ways(question: Question[Batched]) -> Ways:
    """By whether the table has a unique index on its key."""
    return INDEXED if question.R.unique else SCANNED


def least(question: Question[Batched]) -> int:
    """What is needed without a cache."""
    way = ways(question)
    return way.alone.least(way.without_cache(question))


@lru_cache(maxsize=128)
def split(question: Question[Batched]) -> object:
    """How the front stage divides the memory; or, without one, how the join alone does."""
    way = ways(question)
    if has_cache(question):
        return way.staged.split(question)
    return way.alone.split(way.without_cache(question))


def predict(question: Question[Batched]) -> Prediction:
    """Of the way that is chosen: what is chosen does not follow from the sales that come in the end."""
    way = ways(question)
    if has_cache(question.as_planned):
        return way.staged.predict(question)
    return replace(way.alone.predict(way.without_cache(question)), remark=way.remark)


@lru_cache(maxsize=128)
def has_cache(question: Question[Batched]) -> bool:
    """Whether a cache promises clearly more than the join alone; one of all of R does, for it spares the master."""
    way = ways(question)
    if question.memory < way.staged.least(question):
        return False
    if way.staged.split(question).h_R >= question.R.R_t:
        return True
    return way.staged.predict(question).mu > _WORTH_A_CACHE * way.alone.predict(way.without_cache(question)).mu
