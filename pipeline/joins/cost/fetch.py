"""The fetching stage of `auto`: what each way to fetch the missing keys costs, and how it divides its memory."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from pipeline.joins.cost.asked_keys import asked_keys
from pipeline.joins.cost.caps import Caps
from pipeline.joins.cost.inlj import Batched
from pipeline.joins.cost.prediction import Prediction
from pipeline.joins.cost.queries import by_query
from pipeline.joins.cost.question import Question
from pipeline.joins.cost.search import best
from pipeline.joins.cost.staying import cycle
from pipeline.joins.cost.unit_costs import UnitCosts
from pipeline.joins.parts.budget import most_that_fit
from pipeline.joins.parts.cycle import slot_bytes
from pipeline.joins.parts.rounds import ASKED
from pipeline.joins.parts.waiting import WaitingSales

_ANSWERS = 0.5  # most of the memory behind the cache that answers may take; the waiting sales have the rest
_QUESTION_BYTES = 64  # a key in the text of a query
DIRECTORY_SHARE = 32  # one part of so many of the memory may know R's pages
_QUEUE_SHARE = 64  # and one be the slots of Q
_MOST_SLOTS = 64  # segments a cycle: see R-MESHJOIN
_READS = [1 / 8, 1 / 4, 1 / 2]  # of that memory for the rows of one read of a scan, if it is to have more
NO_CAPS = Caps()
_KEYS_WORTH_A_CONNECTION = 250  # fewer keys are asked for faster in one query than in two


@dataclass(frozen=True)
class Split:
    """M = h_S * v_S + rows * v_R + slots * v_Q: the sales in hand, and the rows of one answer or read of a scan."""

    h_S: int
    rows: int  # a read of a scan
    b: int  # keys a query
    lanes: int  # connections that are asked at once
    slots: int  # segments of a cycle
    answers: int  # bytes for rows


def least(question: Question[Batched]) -> int:
    """One sale and its master row."""
    needed = _per_key(question, 1) + _sales_bytes(1, question) + _slot_bytes(question)
    return math.ceil(needed * DIRECTORY_SHARE / (DIRECTORY_SHARE - 1) + 1)


@lru_cache(maxsize=256)
def split(question: Question[Batched]) -> Split:
    """All connections, or one with longer queries, for a small memory is worth more to these; and how long a read.

    What a flow of shorter queries than were measured takes would be read off a line far beyond its points: one bad
    minute of the machine bent it so that 24 keys over two connections promised more than 52 over one, and took 1.4
    times as long.
    """
    kinds = [(lanes, read) for lanes in sorted({1, question.connections}) for read in (0.0, *_READS)]
    splits = [_divide(question, lanes, read) for lanes, read in kinds]
    known = [parts for parts in splits if parts.lanes == 1 or parts.b >= _KEYS_WORTH_A_CONNECTION]
    return best(known, lambda parts: outcome(parts, question).mu)


def predict(question: Question[Batched]) -> Prediction:
    """mu = n / time of n missing sales, fetched in the cheaper of the two ways."""
    return outcome(split(question.as_planned), question)


def _divide(question: Question[Batched], lanes: int, read: float) -> Split:
    """One answer is in hand; of those on their way only the questions are here, for the rest waits in the sockets.

    `read`: the share for the rows of one read of a scan, if that is more than an answer takes.
    """
    memory = question.memory - question.accounting.beside(question.memory // DIRECTORY_SHARE)
    slots = max(1, min(_MOST_SLOTS, int(memory) // _QUEUE_SHARE // slot_bytes(question.R.words)))
    for_sales_and_rows = memory - slots * _slot_bytes(question)
    a_key = _per_key(question, lanes)
    b = max(1, min(question.settings.batch, int(_ANSWERS * for_sales_and_rows / a_key)))
    answers = max(b * a_key, read * for_sales_and_rows)
    left = for_sales_and_rows - answers
    h_S = most_that_fit(left, lambda number: _sales_bytes(number, question), max(0, int(left)))
    return Split(max(1, h_S), max(1, int(answers / _row_bytes(question))), b, lanes, slots, int(answers))


def _row_bytes(question: Question[object]) -> float:
    return question.accounting.rows(1, question.R.v_R, question.R.row_bytes)


def _per_key(question: Question[object], lanes: int) -> float:
    return _row_bytes(question) + question.accounting.beside(lanes * _QUESTION_BYTES if lanes > 1 else 0)


def _sales_bytes(number: int, question: Question[object]) -> float:
    return question.accounting.sales(number, WaitingSales.bytes_for(number, question.R.words, beside=ASKED))


def _slot_bytes(question: Question[object]) -> float:
    return question.accounting.beside(slot_bytes(question.R.words))


def queries(keys: float, b: int, lanes: int) -> int:
    """So many queries for these keys that every connection has its share."""
    return max(1, -(-int(keys) // b), min(lanes, int(keys) // _KEYS_WORTH_A_CONNECTION))


def look_ups(
    keys: float, b: int, lanes: int, costs: UnitCosts, caps: Caps = NO_CAPS, rows: float | None = None
) -> float:
    """Seconds to ask for so many keys by name, over so many connections; they have so many rows, or one each."""
    number = queries(keys, b, lanes)
    return max(_asked(keys, number, lanes, costs), caps.seconds(number, keys if rows is None else rows))


def _asked(keys: float, number: int, lanes: int, costs: UnitCosts) -> float:
    if lanes > 1 and number > 1:
        return number * costs.overlapped.request + costs.overlapped.item * keys
    return number * (costs.lookup.request + costs.loop) + (costs.lookup.item + costs.c_K) * keys


def scan(rows: float, chunk: int, costs: UnitCosts, caps: Caps = NO_CAPS) -> float:
    """Seconds to read so many rows of R in one pass and to probe the waiting sales with them."""
    reads = max(1, -(-int(rows) // max(1, chunk)))
    return max(
        reads * (costs.scan.request + costs.loop) + rows * (costs.scan.item + costs.c_H), caps.seconds(reads, rows)
    )


def page(rows: float, costs: UnitCosts, caps: Caps = NO_CAPS) -> float:
    """Seconds to read one page of so many rows."""
    return max(costs.page(rows) + costs.loop + rows * costs.c_H, caps.seconds(1, rows))


def outcome(parts: Split, question: Question[object]) -> Prediction:
    """What comes of a split."""
    R, stream, costs = question.R, question.stream, question.costs
    h = min(parts.h_S, stream.batch)
    keys = stream.keys(h, R)
    rows = keys * (1 - stream.absent)
    by_name = look_ups(keys, parts.b, parts.lanes, costs, question.caps, rows)
    by_scan, waiting = _cycles(parts, question)
    asked: float = queries(keys, parts.b, parts.lanes)
    seconds, pending = by_name, float(h)
    if by_scan < by_name:
        pending = waiting
        rows = R.R_t * by_scan / scan(R.R_t, parts.rows, costs, question.caps)
        asked, seconds = rows / parts.rows, by_scan
    elif costs.blocks:  # what was thought to cost a seek a key may share some
        every = asked_keys(stream, R, float(h), math.inf)
        seconds = costs.by_name(keys, by_query(stream, R, every, 1 / asked, costs.blocks) * asked)
    c_loop, idle, idle_then = seconds + h * (costs.c_A + costs.c_O + costs.c_E), 0.0, 0.0
    if costs.blocks and by_scan < by_name:
        c_loop, idle, idle_then = _read_ahead(asked, h, parts, question)
    return Prediction(
        split={"sales": int(_sales_bytes(parts.h_S, question)), "answers": parts.answers},
        parameters={"h_S": parts.h_S, "b": parts.b, "lanes": parts.lanes},
        mu=h / c_loop,
        processing_time=c_loop * (pending / h - h / stream.batch / 2),  # of a longer window, as many wait all the time
        queries=asked / c_loop,
        rows=rows / c_loop,
        idle=idle,
        idle_then=idle_then,
        remark=f"takes {'look-ups' if by_name <= by_scan else 'a scan'}: for {h:,} sales that wait look-ups take "
        f"{by_name:.3f} s, the scan {by_scan:.3f} s",
    )


def _read_ahead(reads: float, h: float, parts: Split, question: Question[object]) -> tuple[float, float, float]:
    """Seconds of so many reads that serve h sales; and the shares of them in which a front stage works beside the disk.

    While the join works on a read the disk is at the next one, and no further. With the first read of a segment all its
    sales come in, as many as have left; that takes longer than a read, and then the disk waits. On a sorted R most
    leave at the first fill.
    """
    costs, R, stream, apart = question.costs, question.R, question.stream, _apart(parts, question)
    cycles, fills = reads * parts.rows / R.R_t, _fills(parts, question)
    q = (1 - stream.absent) * stream.over(R).of_pages(fills, R.order) + stream.absent / fills
    left = h / cycles * q
    reading = costs.scan(parts.rows)
    working = costs.loop + parts.rows * costs.c_H + left / apart * costs.c_O
    coming = left * (costs.c_A + costs.c_E)
    seconds = np.maximum(reading, working + coming) + (apart - 1) * np.maximum(reading, working)
    comes, out = question.beside
    idle = np.minimum(np.maximum(0.0, reading - working - coming), left * comes)
    idle_then = (apart > 1) * np.minimum(np.maximum(0.0, reading - working), left * out)
    every = float(seconds.sum())
    return cycles * every, float(idle.sum()) / every, float(idle_then.sum()) / every


def _apart(parts: Split, question: Question[object]) -> int:
    """Reads from fill to fill: who comes during one has missed it."""
    return -(-question.R.R_t // (parts.rows * parts.slots)) + 1


def _fills(parts: Split, question: Question[object]) -> int:
    """In a cycle."""
    return max(1, -(-question.R.R_t // (parts.rows * _apart(parts, question))))


def _cycles(parts: Split, question: Question[object]) -> tuple[float, float]:
    """Seconds in which the scan serves h sales of a window, and how many wait.

    The window's last sales stay for a whole cycle. All others meet their row after half of one, on the average, and
    make room for the next.
    """
    stream, R = question.stream, question.R
    h = min(parts.h_S, stream.batch)
    full = cycle(R, stream, _fills(parts, question), h)
    stay = h / full.served
    return scan(R.R_t, parts.rows, question.costs, question.caps) * (
        stay + max(0.0, 1 - stay) * h / stream.batch
    ), full.waiting
