"""The registry of joins: one line each, chosen by name in the settings."""

import math
from dataclasses import replace

from pipeline.joins.auto import AutoJoin
from pipeline.joins.base import Join, Options
from pipeline.joins.budget import longest_offer, memory_for
from pipeline.joins.cmeshjoin import CachedMeshJoin
from pipeline.joins.cost import frontstage as cache
from pipeline.joins.cost.units import Prediction, Relation, UnitCosts
from pipeline.joins.frontstage import FrontStage, predict_before, split_before
from pipeline.joins.hybridjoin import HybridJoin
from pipeline.joins.inlj import IndexNestedLoopJoin
from pipeline.joins.meshjoin import MeshJoin
from pipeline.joins.partitioned import PartitionedJoin
from pipeline.joins.rmeshjoin import ReducedMeshJoin
from pipeline.joins.ssij import SemiStreamingIndexJoin
from pipeline.joins.xhybridjoin import ExtendedHybridJoin
from pipeline.master.port import Master

JOINS: dict[str, type[Join]] = {
    AutoJoin.name: AutoJoin,
    IndexNestedLoopJoin.name: IndexNestedLoopJoin,
    MeshJoin.name: MeshJoin,
    ReducedMeshJoin.name: ReducedMeshJoin,
    CachedMeshJoin.name: CachedMeshJoin,
    HybridJoin.name: HybridJoin,
    ExtendedHybridJoin.name: ExtendedHybridJoin,
    PartitionedJoin.name: PartitionedJoin,
    SemiStreamingIndexJoin.name: SemiStreamingIndexJoin,
}


def needs_index(name: str, front_stage: bool = False) -> bool:
    """Whether it needs a unique index on the natural key: a cache, too, keeps one row for a key."""
    return front_stage or JOINS[name].needs_index


def has_front_stage(name: str) -> bool:
    """Whether this join is a front stage with another behind it already."""
    return issubclass(JOINS[name], FrontStage)


def make(name: str, master: Master, memory: int, options: Options, front_stage: bool = False) -> Join:
    """The join of this name, or a front stage with it behind. Refuses a budget it cannot work in."""
    options = replace(options, costs=options.costs.of(name))
    if not front_stage:
        return JOINS[name].made(master, memory, options)
    if JOINS[name].keeps_rows:
        # The join behind keeps rows too: a row that grew old there must not grow as old again in the cache.
        options = replace(options, max_staleness=options.max_staleness / 2)
    inner = JOINS[name].made(master, split_before(JOINS[name], master, memory, options), options)
    return FrontStage(inner, memory, options)


def least_memory(name: str, relation: Relation, options: Options, front_stage: bool = False) -> int:
    """The least memory it takes."""
    least = JOINS[name].least(relation, options)
    return memory_for(least + cache.least_memory(relation) if front_stage else least)


def predict(name: str, memory: int, relation: Relation, options: Options, front_stage: bool = False) -> Prediction:
    """What the cost model says of it."""
    options = replace(options, costs=options.costs.of(name))
    if front_stage:
        prediction = predict_before(JOINS[name], memory, relation, options)
    else:
        prediction = replace(JOINS[name].predict(memory, relation, options), algorithm=name)
    prediction = _offered_in_pieces(prediction, longest_offer(memory, relation.words), options.costs)
    return _at_least_once(prediction, options)


def _at_least_once(prediction: Prediction, options: Options) -> Prediction:
    """However few its sales are, and if nothing is read for them: a window is offered and stepped once."""
    window, mu = options.stream.batch, prediction.mu
    idle = max(0.0, 1 - prediction.queries / mu * window) if mu else 0.0
    slower = 1 + mu * idle * (options.costs.c_P + options.costs.loop) / window
    return replace(prediction, mu=mu / slower, queries=prediction.queries / slower, rows=prediction.rows / slower)


def _offered_in_pieces(prediction: Prediction, longest: int, costs: UnitCosts) -> Prediction:
    """An offer for each iteration is in `loop`; with a small memory it takes several to bring its sales."""
    mu, iterations = prediction.mu, prediction.queries
    if not iterations:
        return prediction
    slower = 1 + (math.ceil(mu / iterations / longest) - 1) * iterations * costs.c_P
    return replace(prediction, mu=mu / slower, queries=iterations / slower, rows=prediction.rows / slower)
