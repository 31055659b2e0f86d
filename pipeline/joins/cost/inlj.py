"""INLJ, one key a query as published or many (hybridjoin-2011, section 3)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from pipeline.joins.cost.asked_keys import AskedKeys, Tried, asked_keys, one_sale
from pipeline.joins.cost.lookups import NOTHING
from pipeline.joins.cost.prediction import Prediction
from pipeline.joins.cost.queries import by_query
from pipeline.joins.cost.question import Question
from pipeline.joins.parts.budget import most_that_fit
from pipeline.joins.parts.waiting import WaitingSales

_EQUAL = 1e-6
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
    """mu = n / c_loop, with c_loop = c_IO(k) + k c_K + n (c_S + c_A + c_O + c_E) for a query of k keys, n sales'.

    A window's last sales are served when all have come. Where a key may have many rows, each costs a look-up's item;
    on a declared disk they lie as it says. How many they are, experiments tell; a job does not know, and takes one.
    """
    stream, costs, parts = question.stream, question.costs, split(question)
    if parts.b == 1:
        costs = costs.of(PER_TUPLE)
    h, asked, tried = _asked(parts, question)
    last = one_sale(stream, question.R) if parts.b == 1 else asked_keys(stream, question.R, h, math.inf)
    some = max(0.0, stream.batch - h) / asked.sales  # queries with all those sales waiting
    seconds, queries, rows = _of(asked, some, tried, parts, question)
    at_last = _of(last, h / last.sales, tried, parts, question)
    seconds, queries, rows = seconds + at_last[0], queries + at_last[1], rows + at_last[2]
    sales = some * asked.sales + h
    results = (1 - stream.absent) * stream.results.mean + stream.absent
    seconds += sales * (costs.c_S + costs.c_A + costs.c_E + results * costs.c_O)
    mu = sales / seconds
    coming = asked.sales / 2 * mu * (costs.c_S + costs.c_A)  # while those of a query come in, half of them are there
    return Prediction(
        split={"sales": int(_sales_bytes(parts.h_S, question)), "answer": int(_rows_bytes(parts.rows, question))},
        parameters={"h_S": parts.h_S, "b": parts.b},
        mu=mu,
        processing_time=(h - coming) / mu * (1 - h / stream.batch / 2),  # of a longer window, as many wait all the time
        queries=queries / seconds,
        rows=rows / seconds,
    )


def _asked(parts: Split, question: Question[Batched]) -> tuple[float, AskedKeys, Tried]:
    """How many sales wait; what is in a query; and how many keys are asked for at once."""
    R, stream = question.R, question.stream
    h, tried = float(min(parts.h_S, stream.batch)), Tried(parts.b, ())
    if parts.b == 1:
        return h, one_sale(stream, R), tried
    asked = asked_keys(stream, R, h, tried.keys)
    if not R.unique:
        tried = asked.tried(parts.rows, parts.b)
        asked = asked_keys(stream, R, h, tried.keys)
    if asked.sales > question.fed:  # a query serves more than come for it
        h = max(1.0, question.fed)
        asked = asked_keys(stream, R, h, tried.keys)
    return h, asked, tried


def _of(
    asked: AskedKeys, times: float, tried: Tried, parts: Split, question: Question[Batched]
) -> tuple[float, float, float]:
    """Seconds of so many times these keys, but for what sales cost; queries, of so many keys; and rows."""
    R, stream, costs = question.R, question.stream, question.costs
    keys, rows = asked.keys, asked.looked_for
    asks = max(1.0, keys / tried.keys)
    fewer = keys < tried.keys * (1 - _EQUAL)  # wait than are tried
    answers = [] if fewer else [(asks * often, of_one) for often, of_one in tried.answers]
    more = 0.0 if R.unique else keys * asked.more_pieces(parts.rows)
    rest = rows - sum(number * of_one for number, of_one in answers)
    if not answers or (more and rest > 0):
        some = more + asks * (not answers)
        answers.append((some, rest / some))
    queries, blocks = sum(number for number, _ in answers), NOTHING
    if costs.blocks:
        for number, of_one in answers:
            blocks += by_query(stream, R, asked, of_one / rows, costs.blocks) * number
    seconds = queries * (costs.lookup.request + costs.loop) + keys * costs.c_K + costs.by_name(rows, blocks)
    return times * seconds, times * queries, times * asked.found
