"""INLJ, one key a query as published or many (hybridjoin-2011, section 3)."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.joins.cost.units import Prediction, Relation, Stream, UnitCosts
from pipeline.joins.parts.waiting import WaitingSales

PER_TUPLE = "inlj, a tuple at a time"  # its iteration takes less: one key has no duplicates


@dataclass(frozen=True)
class Split:
    """M = h_S * v_S + b * v_R."""

    b: int  # keys a query
    h_S: int  # sales in hand
    least: float  # bytes without which nothing goes


def split(memory: int, relation: Relation, batch: int) -> Split:
    """The keys of a query take at most half of the memory, for longer queries stop gaining; the sales the rest."""
    v_R = relation.row_bytes
    b = max(1, min(batch, int(memory / 2 / v_R)))
    h_S = max(1, WaitingSales.capacity_for(memory - b * v_R, relation.words))
    return Split(b, h_S, v_R + WaitingSales.bytes_for(1, relation.words))


def predict(memory: int, relation: Relation, stream: Stream, costs: UnitCosts, batch: int) -> Prediction:
    """mu = h / c_loop of a window of h sales of n keys: c_loop = c_IO(n) + n c_K + h (c_S + c_A + c_O + c_E)."""
    parts = split(memory, relation, batch)
    h = min(parts.h_S, stream.batch)
    if parts.b == 1:
        costs = costs.of(PER_TUPLE)
        keys, queries = float(h), float(h)
    else:
        present = stream.over(relation).distinct(h * (1 - stream.absent))
        keys = min(float(h), present + h * stream.absent)
        queries = max(1.0, keys / parts.b)
    passing = queries * h / 2 * costs.c_W
    c_loop = queries * (costs.lookup.request + costs.loop) + keys * (costs.lookup.item + costs.c_K) + passing
    c_loop += h * (costs.c_S + costs.c_A + costs.c_O + costs.c_E)
    return Prediction(
        algorithm="inlj",
        memory=memory,
        split={"sales": WaitingSales.bytes_for(parts.h_S, relation.words), "answer": int(parts.b * relation.row_bytes)},
        parameters={"h_S": parts.h_S, "b": parts.b},
        mu=h / c_loop,
        processing_time=c_loop / 2,
        queries=queries / c_loop,
        rows=keys * (1 - stream.absent) / c_loop,
    )
