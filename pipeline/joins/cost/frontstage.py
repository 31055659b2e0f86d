"""The front stage: how large its cache should be, and what it makes of the join behind it (cmeshjoin-cikm2013, 3.2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pipeline.joins.budget import memory_for
from pipeline.joins.cost.units import Prediction, Relation, Stream, UnitCosts, best
from pipeline.joins.parts.cache import RowCache

Behind = Callable[[int, Stream], Prediction]  # the model of the join behind, for its memory and the sales that reach it

_SHARES = [share / 32 for share in range(4, 32)]  # with less, the join behind would fill the cache too slowly
_USUAL_SHARE = 0.25


def least_memory(relation: Relation) -> int:
    """Bytes of a cache of one row."""
    return RowCache.bytes_for(1, relation.v_R, relation.words)


def predict(
    memory: int, inner: int, relation: Relation, stream: Stream, costs: UnitCosts, behind: Behind
) -> Prediction:
    """Equation 4, with the time to probe the cache: mu = 1 / (c_S + c_F + (1 - p_N(h_R)) / mu_dp).

    The join behind splits `inner` bytes of these; it is offered nothing, so the part for offers is there only once.
    """
    h_R = cached_rows(memory - inner, relation)
    p_N = stream.hits(h_R, relation)
    fetch = behind(memory_for(inner), passed_on(h_R, relation, stream))
    # For each iteration of the join behind there is one of the front stage: it looks at sales, and at what came back.
    stages = (1 - p_N) / fetch.mu * (1 + fetch.queries * costs.loop)
    time = costs.c_S + costs.c_F + p_N * costs.c_O + stages
    slower = (1 - p_N) / fetch.mu / time  # share of the time that the join behind has
    return Prediction(
        algorithm=f"front stage + {fetch.algorithm}",
        memory=memory,
        split={"cache": memory - inner, **fetch.split},
        parameters={"h_R": h_R, "p_N": p_N, **fetch.parameters},
        mu=1 / time,
        processing_time=(1 - p_N) * fetch.processing_time,
        queries=fetch.queries * slower,
        rows=fetch.rows * slower,
        remark=fetch.remark,
    )


def cached_rows(memory: float, relation: Relation) -> int:
    """h_R: the rows that a cache of so many bytes holds."""
    return min(relation.R_t, RowCache.capacity_for(memory, relation.v_R, relation.words))


def passed_on(h_R: int, relation: Relation, stream: Stream) -> Stream:
    """What a cache of the most wanted rows leaves of the stream to the join behind."""
    p_N = stream.hits(h_R, relation)
    return replace(stream, batch=max(1, round(stream.batch * (1 - p_N))), beyond=stream.beyond + h_R)


def inner_share(memory: int, least: int, relation: Relation, stream: Stream, costs: UnitCosts, behind: Behind) -> int:
    """The bytes for the join behind (at least `least`) that give the greatest rate: equation 6's root, by looking."""
    most = memory - least_memory(relation)
    sizes = {max(least, min(most, int(memory * share))) for share in _SHARES}
    # Where all of R fits into the cache, every split is as good: rows that expire still need a join behind.
    usual = sorted(sizes, key=lambda size: abs(size - memory * _USUAL_SHARE))
    return best(usual, lambda size: predict(memory, size, relation, stream, costs, behind).mu)
