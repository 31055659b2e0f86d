"""The front stage: how large its cache should be, and what it makes of the join behind it (cmeshjoin-cikm2013, 3.2).

Beside its equations (published/cmeshjoin.py): 1 and 2 are for any e, absent keys and rows too old; for 3 there is the
model of the join behind, asked with the sales that the cache leaves; 4 has c_S, c_F, the hits' c_O and `loop` besides;
for 5 to 7, which leave out what the join behind loses, shares of the memory are looked at, 32nds of it. With equal
costs and bytes the gain is equation 4's at its best to 1 %. Where keys repeat in R, the cache has all rows of those
keys that are wanted most for each row; as a job does not know how often they repeat, it takes h_R rows for as many
keys.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any

from pipeline.errors import BadSetting
from pipeline.joins.cost.prediction import Prediction
from pipeline.joins.cost.question import Model, Question, Relation, Stream
from pipeline.joins.cost.search import best_near
from pipeline.joins.parts.budget import most_that_fit
from pipeline.joins.parts.cache import RowCache

_SHARES = [share / 32 for share in range(4, 32)]  # with less, the join behind would fill the cache too slowly
_USUAL_SHARE = 0.25
_NEARLY_ALL = 0.95  # of R in the cache: what is left is less than what comes until it is there
_MANY_OFFERS = 20  # with so few hits nothing is held up
WORTH_AN_OFFER = 3  # an iteration's last offer may be that much shorter than the longest


@dataclass(frozen=True)
class Settings:
    h_R: int = 0  # rows in the cache; 0: as the cost model finds best
    threshold: float = -1.0  # how often a row must be wanted to come in; below 0: it adapts
    published: bool = False  # as algorithm 1 has it, and the join behind as published too

    def __post_init__(self) -> None:
        if self.h_R < 0:
            raise BadSetting(f"h_R = {self.h_R} must be at least 0.", about=["h_R"])


AS_FOUND = Settings()


@dataclass(frozen=True)
class Split:
    """M = M_inner + h_R * (v_R + 16 + index)."""

    behind: int  # bytes of the join behind
    cache: int  # bytes
    h_R: int  # rows


@dataclass(frozen=True)
class FrontStageModel:
    """The model of a front stage, by the model of the join behind it."""

    behind: Model[Any]

    def least(self, question: Question[Any]) -> int:
        """What the join behind needs, and a cache of one row."""
        return math.ceil(self.least_behind(question) + cache_bytes(max(1, settings(question).h_R), question))

    def least_behind(self, question: Question[Any]) -> int:
        return self.behind.least(replace(question, settings=settings_behind(question)))

    def split(self, question: Question[Any]) -> Split:
        """Equation 6's optimum by looking: its root as printed leaves out what the join behind loses."""
        if h_R := settings(question).h_R:
            cache = math.ceil(cache_bytes(h_R, question))
            return Split(question.memory - cache, cache, h_R)
        return _split(self, question)

    def predict(self, question: Question[Any]) -> Prediction:
        """Equation 4, with the time to probe the cache: mu = 1 / (c_S + c_F + (1 - p_N(h_R)) / mu_dp)."""
        return self.outcome(self.split(question.as_planned), question)

    def outcome(self, parts: Split, question: Question[Any]) -> Prediction:
        """What comes of a split."""
        question = _remembering(question)
        costs, p_N = question.costs, question.stream.hits(parts.h_R, question.R)
        fetch = question.caps.held(self.behind.predict(behind(parts, question)))
        # For each iteration of the join behind there is one of the front stage: it looks at sales, and at what came
        # back.
        stages = (1 - p_N) / fetch.mu * (1 + fetch.queries * costs.loop)
        comes, out = _own_work(parts.h_R, p_N, question)
        time = stages + max(0.0, comes - fetch.idle * stages) + max(0.0, out - fetch.idle_then * stages)
        share = (1 - p_N) / fetch.mu / time  # of the time that the join behind has
        iteration = 1 / fetch.queries if fetch.queries else 0.0
        return Prediction(
            split={"cache": parts.cache, **fetch.split},
            parameters={"h_R": parts.h_R, "p_N": p_N, **fetch.parameters},
            mu=1 / time,
            # Hits leave with the iteration in which they came; the others wait longer than in the join behind alone,
            # which has a share of the time.
            processing_time=((1 - p_N) * fetch.processing_time + p_N * iteration) / share if share else 0.0,
            queries=fetch.queries * share,
            rows=fetch.rows * share,
            remark=fetch.remark,
        )

    def with_behind(self, question: Question[Any], bytes_behind: int) -> Split:
        """The split that leaves so many bytes to the join behind."""
        cache = question.memory - bytes_behind
        return Split(bytes_behind, cache, min(question.R.R_t, cached_rows(cache, question)))


def behind(parts: Split, question: Question[Any]) -> Question[Any]:
    """What is asked of the join behind: it splits its own part; what the cache does not serve comes already read."""

    def passed_on(stream: Stream) -> Stream:
        return _passed_on(parts.h_R, question.R, stream)

    question = _remembering(question)
    p_N = question.stream.hits(parts.h_R, question.R)
    (comes, out), missed = _own_work(parts.h_R, p_N, question), max(1e-9, 1 - p_N)
    planned = None if question.planned is None else passed_on(question.planned)
    if parts.h_R >= _NEARLY_ALL * question.R.R_t:
        # The cache leaves absent keys alone, once it is full; until then, and when its rows grow old, all others come.
        # For absent keys alone pages of one row are best, and to fill the cache by them takes minutes.
        planned = question.planned or question.stream
    return replace(
        question,
        memory=parts.behind,
        stream=passed_on(question.stream),
        planned=planned,
        settings=settings_behind(question),
        costs=replace(question.costs, c_S=0.0),
        front=None,
        beside=(comes / missed, out / missed),
        fed=max(1.0, _fed(p_N) * question.offer),
    )


def _remembering(question: Question[Any]) -> Question[Any]:
    """As published, no absence is kept."""
    if not settings(question).published:
        return question
    planned = question.planned and replace(question.planned, absent_life=0.0)
    return replace(question, stream=replace(question.stream, absent_life=0.0), planned=planned)


def _fed(p_N: float) -> float:
    """Misses that come in for an iteration, of a longest offer's sales: no more hits are held than these."""
    held = taken = 0.0
    while 1 - held >= 1 / WORTH_AN_OFFER and taken < _MANY_OFFERS:
        taken += 1 - held
        held = p_N * taken
    return (1 - p_N) * taken if taken < _MANY_OFFERS else math.inf


def settings(question: Question[Any]) -> Settings:
    """Of the front stage."""
    given: Settings | None = question.front
    return given or AS_FOUND


def settings_behind(question: Question[Any]) -> Any:
    """Of the join behind: it is as published when the front stage is, if it can be."""
    own = question.settings
    if settings(question).published and "published" in {field.name for field in fields(own)}:
        return replace(own, published=True)
    return own


def cache_bytes(rows: int, question: Question[object]) -> float:
    """What a cache of so many rows takes."""
    R, remembers = question.R, not settings(question).published
    return question.accounting.cached(rows, R.v_R, RowCache.bytes_for(rows, R.v_R, R.words, R.unique, remembers))


def cached_rows(memory: float, question: Question[object]) -> int:
    """h_R: the rows that a cache of so many bytes holds."""
    return most_that_fit(memory, lambda rows: cache_bytes(rows, question), max(0, int(memory / question.R.v_R)))


def _own_work(h_R: int, p_N: float, question: Question[Any]) -> tuple[float, float]:
    """Seconds of the front stage for a sale: to look it up, and to put out what it finds."""
    costs = question.costs
    return costs.c_S + costs.c_F, p_N * _results_of_hits(h_R, question) * costs.c_O


def _results_of_hits(h_R: int, question: Question[Any]) -> float:
    """The mean of a sale's that finds them in the cache."""
    stream = question.stream
    if not stream.results:
        return 1.0
    hits = stream.results.hits(h_R)
    return (stream.results.mean - (1 - hits) * stream.results.without(h_R).mean) / hits if hits else 0.0


def _passed_on(h_R: int, R: Relation, stream: Stream) -> Stream:
    """What a cache of the most wanted rows leaves of the stream: fewer sales, and a larger share of them absent."""
    missed, (rows, absences) = 1 - stream.hits(h_R, R), stream.cached(h_R, R)
    absent = min(1.0, (stream.absent - stream.hits_absent(absences, R)) / missed) if missed else 0.0
    left = replace(stream, batch=max(1, round(stream.batch * missed)), absent=absent, beyond=stream.beyond + rows)
    return replace(left, results=stream.results.without(rows)) if stream.results else left


@lru_cache(maxsize=128)
def _split(model: FrontStageModel, question: Question[Any]) -> Split:
    least, memory = model.least_behind(question), question.memory
    most = memory - math.ceil(cache_bytes(1, question))
    sizes = sorted({max(least, min(most, int(memory * share))) for share in _SHARES})
    splits = [model.with_behind(question, size) for size in sizes]
    # Where all of R fits into the cache, every split is as good: rows that expire still need a join behind.
    return best_near(
        splits,
        lambda parts: model.outcome(parts, question).mu,
        then=lambda parts: -abs(parts.behind - memory * _USUAL_SHARE),
    )
