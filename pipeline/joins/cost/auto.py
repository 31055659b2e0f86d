"""`auto`: what each way to fetch the missing keys costs, and how much of the memory the cache should have."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial

from pipeline.joins.budget import memory_for, to_split
from pipeline.joins.cost import frontstage
from pipeline.joins.cost.units import Prediction, Relation, Stream, UnitCosts, best
from pipeline.joins.parts.cycle import slot_bytes
from pipeline.joins.parts.waiting import WaitingSales

_ANSWERS = 0.5  # most of the memory behind the cache that answers may take; the waiting sales have the rest
_QUESTION_BYTES = 64  # a key in the text of a query
DIRECTORY_SHARE = 32  # one part of so many of the memory may know R's pages
_QUEUE_SHARE = 64  # and one be the slots of Q
_MOST_SLOTS = 64  # segments a cycle: see R-MESHJOIN
_READS = [1 / 8, 1 / 4, 1 / 2]  # of that memory for the rows of one read of a scan, if it is to have more
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


def divide(memory: int, relation: Relation, batch: int, lanes: int, read: float = 0.0) -> Split:
    """One answer is in hand; of those on their way only the questions are here, for the rest waits in the sockets.

    `read`: the share for the rows of one read of a scan, if that is more than an answer takes.
    """
    slots = max(1, min(_MOST_SLOTS, memory // _QUEUE_SHARE // slot_bytes(relation.words)))
    for_sales_and_rows = memory - slots * slot_bytes(relation.words)
    per_key = _per_key(relation, lanes)
    b = max(1, min(batch, int(_ANSWERS * for_sales_and_rows / per_key)))
    answers = max(b * per_key, read * for_sales_and_rows)
    h_S = max(1, WaitingSales.capacity_for(for_sales_and_rows - answers, relation.words))
    return Split(h_S, max(1, int(answers / relation.row_bytes)), b, lanes, slots, int(answers))


def _per_key(relation: Relation, lanes: int) -> float:
    return relation.row_bytes + (lanes * _QUESTION_BYTES if lanes > 1 else 0)


def split(memory: int, relation: Relation, stream: Stream, costs: UnitCosts, batch: int, connections: int) -> Split:
    """All connections, or one with longer queries, for a small memory is worth more to these; and how long a read."""
    kinds = [(lanes, read) for lanes in sorted({1, connections}) for read in (0.0, *_READS)]
    ways = [divide(fetching(memory), relation, batch, lanes, read) for lanes, read in kinds]
    return best(ways, lambda parts: _behind(parts, memory, stream, relation, costs).mu)


def fetching(memory: int) -> int:
    """What is left of the fetching stage's memory for sales and rows: the rest may know R's pages."""
    return to_split(memory) - to_split(memory) // DIRECTORY_SHARE


def least_of_fetch(relation: Relation) -> int:
    needed = _per_key(relation, 1) + WaitingSales.bytes_for(1, relation.words) + slot_bytes(relation.words)
    return math.ceil(needed * DIRECTORY_SHARE / (DIRECTORY_SHARE - 1) + 1)


def queries(keys: float, b: int, lanes: int) -> int:
    """So many queries for these keys that every connection has its share."""
    return max(1, -(-int(keys) // b), min(lanes, int(keys) // _KEYS_WORTH_A_CONNECTION))


def look_ups(keys: float, b: int, lanes: int, costs: UnitCosts) -> float:
    """Seconds to ask for so many keys by name, over so many connections."""
    number = queries(keys, b, lanes)
    if lanes > 1 and number > 1:
        return number * costs.overlapped.request + costs.overlapped.item * keys
    return number * (costs.lookup.request + costs.loop) + (costs.lookup.item + costs.c_K) * keys


def scan(rows: float, chunk: int, waiting: float, costs: UnitCosts) -> float:
    """Seconds to read so many rows of R in one pass and to probe the waiting sales with them."""
    reads = max(1, -(-int(rows) // max(1, chunk)))
    return reads * (costs.scan.request + costs.loop + waiting * costs.c_W) + rows * (costs.scan.item + costs.c_H)


def page(rows: float, sales: float, costs: UnitCosts) -> float:
    """Seconds to read one page of so many rows."""
    return costs.page(rows) + costs.loop + sales * costs.c_W + rows * costs.c_H


def predict_behind(
    memory: int, stream: Stream, relation: Relation, costs: UnitCosts, batch: int, connections: int
) -> Prediction:
    """mu = n / time of n missing sales, fetched in the cheaper of the two ways."""
    return _behind(split(memory, relation, stream, costs, batch, connections), memory, stream, relation, costs)


def _behind(parts: Split, memory: int, stream: Stream, relation: Relation, costs: UnitCosts) -> Prediction:
    h = min(parts.h_S, stream.batch)
    keys = min(h, stream.over(relation).distinct(h * (1 - stream.absent)) + h * stream.absent)
    by_name, by_scan = look_ups(keys, parts.b, parts.lanes, costs), cycles(parts, stream, relation, costs)
    c_loop = min(by_name, by_scan) + h * (costs.c_A + costs.c_O + costs.c_E)
    rows = keys * (1 - stream.absent)
    asked: float = queries(keys, parts.b, parts.lanes)
    if by_scan < by_name:
        rows = relation.R_t * by_scan / scan(relation.R_t, parts.rows, h, costs)
        asked = rows / parts.rows
    return Prediction(
        algorithm="look-ups" if by_name <= by_scan else "scan",
        memory=memory,
        split={"sales": WaitingSales.bytes_for(parts.h_S, relation.words), "answers": parts.answers},
        parameters={"h_S": parts.h_S, "b": parts.b, "lanes": parts.lanes},
        mu=h / c_loop,
        processing_time=c_loop / 2,
        queries=asked / c_loop,
        rows=rows / c_loop,
        remark=f"takes {'look-ups' if by_name <= by_scan else 'a scan'}: for {h:,} sales that wait look-ups take "
        f"{by_name:.3f} s, the scan {by_scan:.3f} s",
    )


def cycles(parts: Split, stream: Stream, relation: Relation, costs: UnitCosts) -> float:
    """Seconds in which the scan serves h sales of a window.

    The window's last sales stay for a whole cycle. All others meet their row after half of one, on the average, and
    make room for the next.
    """
    h = min(parts.h_S, stream.batch)
    stay = (1 + stream.absent) / 2
    return scan(relation.R_t, parts.rows, h, costs) * (stay + (1 - stay) * h / stream.batch)


def inner_memory(
    memory: int, relation: Relation, stream: Stream, costs: UnitCosts, batch: int, connections: int
) -> int:
    """The fetching stage's memory, of a join's whole."""
    behind = partial(predict_behind, relation=relation, costs=costs, batch=batch, connections=connections)
    share = frontstage.inner_share(to_split(memory), least_of_fetch(relation), relation, stream, costs, behind)
    return memory_for(share)


def predict(
    memory: int, inner: int, relation: Relation, stream: Stream, costs: UnitCosts, batch: int, connections: int
) -> Prediction:
    """With this memory for the fetching stage."""
    behind = partial(predict_behind, relation=relation, costs=costs, batch=batch, connections=connections)
    return replace(
        frontstage.predict(to_split(memory), to_split(inner), relation, stream, costs, behind),
        algorithm="auto",
        memory=memory,
    )
