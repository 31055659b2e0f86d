"""The front stage: how large its cache should be, and what it makes of the join behind it (cmeshjoin-cikm2013, 3.2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pipeline.joins.cost.units import Prediction, Relation, Stream, UnitCosts, best
from pipeline.joins.parts.cache import RowCache

Behind = Callable[[int, Stream], Prediction]  # the model of the join behind, for its memory and the sales that reach it

_SHARES = [share / 32 for share in range(4, 32)]  # with less, the join behind would fill the cache too slowly
_USUAL_SHARE = 0.25


def least_memory(relation: Relation) -> int:
    """Bytes of a cache of one row."""
    return RowCache.bytes_for(1, relation.v_R, relation.words)


def predict(
    memory: int, inner_memory: int, relation: Relation, stream: Stream, costs: UnitCosts, behind: Behind
) -> Prediction:
    """Equation 4, with the time to probe the cache: mu = 1 / (c_S + c_F + (1 - p_N(h_R)) / mu_dp)."""
    h_R = min(relation.R_t, RowCache.capacity_for(memory - inner_memory, relation.v_R, relation.words))
    p_N = stream.over(relation).share(h_R) * (1 - stream.absent)
    window = max(1, round(stream.batch * (1 - p_N)))
    inner = behind(inner_memory, replace(stream, batch=window, beyond=stream.beyond + h_R))
    # For each iteration of the join behind there is one of the front stage: it looks at sales, and at what came back.
    stages = (1 - p_N) / inner.mu * (1 + inner.queries * costs.loop)
    time = costs.c_S + costs.c_F + p_N * costs.c_O + stages
    slower = (1 - p_N) / inner.mu / time  # share of the time that the join behind has
    return Prediction(
        algorithm=f"front stage + {inner.algorithm}",
        memory=memory,
        split={"cache": memory - inner_memory, **inner.split},
        parameters={"h_R": h_R, "p_N": p_N, **inner.parameters},
        mu=1 / time,
        processing_time=(1 - p_N) * inner.processing_time,
        queries=inner.queries * slower,
        rows=inner.rows * slower,
    )


def inner_memory(memory: int, least: int, relation: Relation, stream: Stream, costs: UnitCosts, behind: Behind) -> int:
    """What to leave to the join behind (at least `least`) for the greatest rate: the root of equation 6, by looking."""
    most = memory - least_memory(relation)
    sizes = {max(least, min(most, int(memory * share))) for share in _SHARES}
    # Where all of R fits into the cache, every split is as good: rows that expire still need a join behind.
    usual = sorted(sizes, key=lambda size: abs(size - memory * _USUAL_SHARE))
    return best(usual, lambda size: predict(memory, size, relation, stream, costs, behind).mu)
