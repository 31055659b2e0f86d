"""INLJ, one key a query as published or many (hybridjoin-2011, section 3)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from pipeline.joins.cost.prediction import Prediction
from pipeline.joins.cost.question import Question
from pipeline.joins.parts.waiting import WaitingSales

PER_TUPLE = "inlj, a tuple at a time"  # its iteration takes less: one key has no duplicates


class Batched(Protocol):
    """Settings of an algorithm that asks for keys by name."""

    @property
    def batch(self) -> int: ...


@dataclass(frozen=True)
class Split:
    """M = h_S * v_S + b * v_R."""

    b: int  # keys a query
    h_S: int  # sales in hand


def least(question: Question[Batched]) -> int:
    """One sale and its master row."""
    return math.ceil(question.R.row_bytes + WaitingSales.bytes_for(1, question.R.words))


def split(question: Question[Batched]) -> Split:
    """The keys of a query take at most half of the memory, for longer queries stop gaining; the sales the rest."""
    memory, v_R = question.memory, question.R.row_bytes
    b = max(1, min(question.settings.batch, int(memory / 2 / v_R)))
    h_S = max(1, WaitingSales.capacity_for(memory - b * v_R, question.R.words))
    return Split(b, h_S)


def predict(question: Question[Batched]) -> Prediction:
    """mu = h / c_loop of a window of h sales of n keys: c_loop = c_IO(n) + n c_K + h (c_S + c_A + c_O + c_E)."""
    R, stream, costs, parts = question.R, question.stream, question.costs, split(question)
    h = min(parts.h_S, stream.batch)
    if parts.b == 1:
        costs = costs.of(PER_TUPLE)
        keys, queries = float(h), float(h)
    else:
        keys = stream.keys(h, R)
        queries = max(1.0, keys / parts.b)
    c_loop = queries * (costs.lookup.request + costs.loop) + keys * (costs.lookup.item + costs.c_K)
    c_loop += h * (costs.c_S + costs.c_A + costs.c_O + costs.c_E)
    return Prediction(
        split={"sales": WaitingSales.bytes_for(parts.h_S, R.words), "answer": int(parts.b * R.row_bytes)},
        parameters={"h_S": parts.h_S, "b": parts.b},
        mu=h / c_loop,
        processing_time=c_loop / 2,
        queries=queries / c_loop,
        rows=keys * (1 - stream.absent) / c_loop,
    )
