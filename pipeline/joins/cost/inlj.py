"""INLJ, one key a query as published or many (hybridjoin-2011, section 3)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from pipeline.joins.cost.lookups import NOTHING
from pipeline.joins.cost.prediction import Prediction
from pipeline.joins.cost.queries import by_query
from pipeline.joins.cost.question import Question
from pipeline.joins.parts.budget import most_that_fit
from pipeline.joins.parts.waiting import WaitingSales

PER_TUPLE = "inlj, a tuple at a time"  # its iteration takes less: one key has no duplicates


class Batched(Protocol):
    """Settings of an algorithm that asks for keys by name."""

    @property
    def batch(self) -> int: ...


@dataclass(frozen=True)
class Split:
    """M = h_S * v_S + rows * v_R."""

    b: int  # keys a query
    h_S: int  # sales in hand
    rows: int  # of R in an answer: b, or where a key may have many, as many as are read at once


def least(question: Question[Batched]) -> int:
    """One sale and its master row."""
    return math.ceil(_rows_bytes(1, question) + _sales_bytes(1, question))


def split(question: Question[Batched]) -> Split:
    """The keys of a query take at most half of the memory, for longer queries stop gaining; the sales the rest.

    Where a key may have many rows, what is read at once takes a quarter of it, and a key in a query at least one row.
    """
    memory, R = question.memory, question.R
    rows = max(1, int(memory / (2 if R.unique else 4) / _rows_bytes(1, question)))
    b = min(question.settings.batch, rows)
    rows = b if R.unique else rows
    left = memory - _rows_bytes(rows, question)
    h_S = most_that_fit(left, lambda number: _sales_bytes(number, question), max(0, int(left)))
    return Split(b, max(1, h_S), rows)


def _rows_bytes(number: int, question: Question[Batched]) -> float:
    return question.accounting.rows(number, question.R.v_R, number * question.R.row_bytes)


def _sales_bytes(number: int, question: Question[Batched]) -> float:
    """A byte beside a sale says whether it has met a row, where it may meet many."""
    R = question.R
    return question.accounting.sales(number, WaitingSales.bytes_for(number, R.words, 0 if R.unique else 1))


def predict(question: Question[Batched]) -> Prediction:
    """mu = h / c_loop of a window of h sales of n keys: c_loop = c_IO(n) + n c_K + h (c_S + c_A + c_O + c_E).

    Where a key may have many rows, each costs a look-up's item; on a declared disk they lie as it says. How many they
    are, experiments tell; a job does not know, and takes one.
    """
    R, stream, costs, parts = question.R, question.stream, question.costs, split(question)
    h = min(parts.h_S, stream.batch)
    if parts.b == 1:
        costs = costs.of(PER_TUPLE)
        keys, queries = float(h), float(h)
    else:
        keys = stream.keys(h, R)
        if h > question.fed * max(1.0, keys / parts.b):  # a query serves more than come for it
            h = max(1, int(question.fed))
            keys = stream.keys(h, R)
        queries = max(1.0, keys / parts.b)
    c_loop = queries * (costs.lookup.request + costs.loop) + keys * costs.c_K
    rows = keys * (1 - stream.absent) * stream.results
    asked = rows + keys * stream.absent
    if costs.blocks:
        sales = 1.0 if parts.b == 1 else float(h)
        blocks = by_query(stream, R, keys / queries, sales, costs.blocks) * queries
        if not R.unique:
            blocks = costs.blocks.of_rows(asked, blocks, R.R_t)
    else:
        blocks = NOTHING
    results = h * (1 - stream.absent) * stream.results + h * stream.absent
    c_loop += costs.by_name(asked, blocks) + h * (costs.c_S + costs.c_A + costs.c_E) + results * costs.c_O
    return Prediction(
        split={"sales": int(_sales_bytes(parts.h_S, question)), "answer": int(_rows_bytes(parts.rows, question))},
        parameters={"h_S": parts.h_S, "b": parts.b},
        mu=h / c_loop,
        processing_time=c_loop * (1 - h / stream.batch / 2),  # of a longer window, as many wait all the time
        queries=queries / c_loop,
        rows=rows / c_loop,
    )
