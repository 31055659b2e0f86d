"""HYBRIDJOIN (hybridjoin-2011, section 4.4); the resident part is x-hybridjoin-kais2013's, see xhybridjoin.

Beside its equations (published/hybridjoin.py): 1 has a directory of R's pages, chains of keys and a page that may grow
to 2 d rows; for 2 there is `page_reads`, which gives 2 h_S d / R_t on a scattered R where the paper fits 1.36 to a
sorted one; 3 has the oldest key asked for by name besides, and `loop`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol

import numpy as np

from pipeline.joins.cost.lone_reads import lone_reads
from pipeline.joins.cost.named_keys import named
from pipeline.joins.cost.page_reads import Load, page_reads
from pipeline.joins.cost.prediction import Prediction
from pipeline.joins.cost.question import Question, Relation, Stream
from pipeline.joins.cost.search import best_near, grid
from pipeline.joins.parts.budget import most_that_fit
from pipeline.joins.parts.byname import KEY_BYTES as NAMED_BYTES
from pipeline.joins.parts.bypage import KEY_BYTES, PAGE_BYTES
from pipeline.joins.parts.pagedemand import PAGE_BYTES as DEMAND_BYTES
from pipeline.joins.parts.pages import PageDirectory
from pipeline.joins.parts.resident import ResidentPages
from pipeline.joins.parts.waiting import WaitingSales

SALE_BYTES = KEY_BYTES + NAMED_BYTES  # beside a waiting sale: where its key lies, and whether it is asked for by name

_LOOKS = 6  # at how many sales of the first part wait for a read: each halves what is off


class Paged(Protocol):
    """Settings of an algorithm that reads pages."""

    @property
    def d(self) -> int:
        """Rows a page; 0: as the model finds best."""
        ...

    @property
    def next(self) -> str:
        """The page that is read: the oldest sale's, or the best one."""
        ...

    @property
    def published(self) -> bool:
        """No key is asked for by name but the oldest sale's."""
        ...

    @property
    def buffers(self) -> int:
        """For pages."""
        ...


@dataclass(frozen=True)
class Split:
    """M = v_P + (directory) + h_S * v_S, and l * v_P for X-HYBRIDJOIN's resident part."""

    d: int  # rows of a page: D_t, or d_S
    h_S: int  # sales that wait
    l: int = 0  # pages of the resident part: d_N = l * d  # noqa: E741
    d_N: int = 0  # rows of a resident part that is no pages


def page_bytes(d: int, question: Question[object]) -> float:
    """v_P: a page may have grown to 2 d rows before it is split."""
    R = question.R
    return question.accounting.rows(d, R.v_R, (2 * d + named(d)) * R.row_bytes)


def directory_bytes(d: int, R: Relation) -> float:
    return PageDirectory.bytes_for(pages(d, R), R.words)


def page_heads_bytes(d: int, R: Relation) -> int:
    """A chain of waiting keys for each page; half as many pages again may come by splitting."""
    return PAGE_BYTES * pages(d, R) * 3 // 2


def resident_rows(d: int, l: int) -> int:  # noqa: E741
    """l pages, some larger than d, with what was asked for by name along with them."""
    return l * d + l * d // 8 + named(d) if l else 0


def resident_bytes(d: int, l: int, question: Question[object]) -> float:  # noqa: E741
    """l * v_P, and a use counter for each page of R."""
    if not l:
        return 0.0
    R = question.R
    taken = ResidentPages.bytes_for(resident_rows(d, l), pages(d, R), R.v_R, R.words)
    return question.accounting.rows(l * d, R.v_R, taken)


def sale_bytes(h_S: int, question: Question[object]) -> float:
    return question.accounting.sales(h_S, WaitingSales.bytes_for(h_S, question.R.words) + h_S * SALE_BYTES)


def least(question: Question[Paged]) -> int:
    """One sale, and pages of the size that makes buffer and directory together smallest."""
    return math.ceil(min(fixed_bytes(d, question) for d in page_sizes(question)) + sale_bytes(1, question))


@lru_cache(maxsize=1_024)
def split(question: Question[Paged]) -> Split:
    """The d of the greatest service rate: the papers' "standard calculus", done by looking."""
    # Of equally good ones the largest: fewer reads until all is known.
    sizes = reversed(page_sizes(question))
    splits = [Split(d, sales_in(question.memory - fixed_bytes(d, question), question)) for d in sizes]
    candidates = [parts for parts in splits if parts.h_S]
    return best_near(candidates, lambda parts: rate(parts, question)) if candidates else Split(1, 1)


def predict(question: Question[Paged]) -> Prediction:
    """What the join does with this stream, also when it has split its memory for another."""
    return outcome(split(question.as_planned), question)


def rate(parts: Split, question: Question[Paged]) -> float:
    """mu with this split."""
    return _rate(parts, _load(parts, question), question)


def load(
    parts: Split, R: Relation, stream: Stream, first: bool = False, a_block: float = 0.0, best: bool = False
) -> Load:
    """The pages that are read for a window: see `page_reads`."""
    k = pages(parts.d, R)  # of which the last may be short: all rows are all pages
    stay = min(parts.d_N / parts.d, k) if 0 < parts.d_N < R.R_t else k if parts.d_N else parts.l
    return page_reads(stream, R, k, parts.h_S, stay, first, a_block, best)


def _load(parts: Split, question: Question[Paged]) -> Load:
    window = _with(parts, question)
    if not parts.d_N:
        return window
    if not window.reads:  # H is filled, an offer after the other, and all of it served
        costs, first_offer = question.costs, min(1.0, question.offer / parts.h_S)
        filling = _rate(parts, window, question) * (costs.c_S + costs.c_A + costs.c_E)  # its share of the time
        return replace(window, waiting=parts.h_S * (1 - filling * (1 - first_offer) / 2))
    # What the first part serves waits for the next read like the others: the less room it leaves them, the fewer of it
    # come between two reads.
    waiting = 0.0
    for _ in range(_LOOKS):
        waiting += (min(parts.h_S - 1, window.hits / window.reads) - waiting) / 2
        window = _with(replace(parts, h_S=max(1, round(parts.h_S - waiting))), question)
    return replace(window, waiting=window.waiting + waiting)


def _with(parts: Split, question: Question[Paged]) -> Load:
    R, stream, blocks, first = question.R, question.stream, question.costs.blocks, parts.d_N > 0
    if stream.absent and question.settings.published:
        h_S = min(parts.h_S, max(1, round(stream.batch * (1 - stream.absent))))
        return lone_reads(stream, R, pages(parts.d, R), h_S, parts.l, first)
    return load(parts, R, stream, first, blocks.rows if blocks else 0.0, question.settings.next == "best")


def outcome(parts: Split, question: Question[Paged], with_resident_part: bool = False) -> Prediction:
    """What comes of a split."""
    R, window = question.R, _load(parts, question)
    mu = _rate(parts, window, question)
    shares = {
        "sales": int(sale_bytes(parts.h_S, question)),
        "page": int(page_bytes(parts.d, question)),
        "directory": int(question.accounting.beside(directory_bytes(parts.d, R))),
    }
    if with_resident_part:
        shares["resident"] = int(resident_bytes(parts.d, parts.l, question))
    reads = mu * window.reads / window.sales if window.sales else 0.0
    return Prediction(
        split=shares,
        parameters={
            "w": min(window.w, window.sales),
            "h_S": parts.h_S,
            "k": parts.d,
            **({"l": parts.l} if with_resident_part else {}),
        },
        mu=mu,
        # Little: so long is the mean over all sales, those that never wait too.
        processing_time=(window.waiting - _still_to_come(parts, window, mu, question)) / mu,
        queries=reads,
        rows=reads * min(parts.d, R.R_t),
    )


def _still_to_come(parts: Split, window: Load, mu: float, question: Question[Paged]) -> float:
    """How many fewer wait than from read to read: what a read has served comes in again, an offer after the other.

    A read of the page wanted most may empty half of H, and to fill it takes most of the time.
    """
    if not window.reads or window.sales <= window.hits or question.stream.batch <= parts.h_S:
        return 0.0
    costs, of_first = question.costs, window.hits / window.reads if parts.d_N else 0.0
    held = 1.0 if parts.d_N else 1 - window.hits / window.sales
    filling = mu * (costs.c_S + costs.c_F * (parts.l > 0 and not parts.d_N) + held * (costs.c_A + costs.c_E))
    freed = of_first + window.served * (window.w * held - of_first)
    lacking = np.maximum(0.0, freed - question.offer) / 2
    return float(filling * (window.often * freed * lacking).sum() / (window.often * freed).sum())


def _rate(parts: Split, window: Load, question: Question[Paged]) -> float:
    """mu = w / c_loop, with

    c_loop = c_IO(v_P) + d c_H + w (c_O + c_E + c_S + c_A)

    The resident part is probed with the sales that come in, not the other way round: w c_F instead of d_N c_H; as
    published its rows are looked up in H with each read, and as often as H is filled, and what they serve has been
    there. With two buffers the disk reads on meanwhile, and of each read only the longer of the two times counts.
    """
    costs = question.costs
    reading, working = costs.page(parts.d) + costs.beside, costs.loop + (parts.d + parts.d_N) * costs.c_H
    waited = window.sales - (0 if parts.d_N else window.hits)
    of_sales = window.sales * (costs.c_S + costs.c_O) + waited * (costs.c_A + costs.c_E)
    of_sales += window.sales * costs.c_F * (parts.l > 0 and not parts.d_N)
    iterations = max(window.reads, window.sales / parts.h_S if parts.d_N else 0.0)
    seconds = window.reads * reading + iterations * working + of_sales
    if question.settings.buffers > 1 and window.reads:
        of_each = working + of_sales / window.reads * window.served
        seconds = window.reads * float((window.often * np.maximum(reading, of_each)).sum())
    seconds += costs.by_name(window.by_name, window.blocks)
    return float(window.sales / seconds) if seconds else 0.0


def sales_in(memory: float, question: Question[object]) -> int:
    """The most sales that fit, with what is kept beside them."""
    return most_that_fit(memory, lambda h_S: sale_bytes(h_S, question), max(0, int(memory)))


def fixed_bytes(d: int, question: Question[Paged]) -> float:
    """What pages of d rows take before any sale has come."""
    R, settings = question.R, question.settings
    known = directory_bytes(d, R) + page_heads_bytes(d, R)
    if settings.next == "best":
        known += DEMAND_BYTES * pages(d, R) * 3 // 2
    buffers = page_bytes(d, question)
    if settings.buffers > 1:  # as its rows come: what is made of them is made of one page at a time
        buffers += question.accounting.rows(d, R.v_R, 2 * d * R.v_R)
    return buffers + question.accounting.beside(known)


def page_sizes(question: Question[Paged]) -> list[int]:
    """Sizes worth looking at, those among them with which the least memory goes; or the one that is set."""
    if question.settings.d:
        return [question.settings.d]
    sizes = grid(1, question.R.R_t, 30)
    smallest = min(sizes, key=lambda d: fixed_bytes(d, question))
    return sorted({*sizes, *grid(smallest / 2, smallest * 2, 12)})


def pages(d: int, R: Relation) -> int:
    return max(1, -(-R.R_t // d))
