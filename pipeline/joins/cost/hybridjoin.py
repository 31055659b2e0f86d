"""HYBRIDJOIN (hybridjoin-2011, section 4.4) and X-HYBRIDJOIN (x-hybridjoin-kais2013, sections 4.3 and 6)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from pipeline.joins.cost.units import Prediction, Relation, Stream, UnitCosts, Zipf, best, grid
from pipeline.joins.parts.pages import PageDirectory
from pipeline.joins.parts.resident import ResidentPages
from pipeline.joins.parts.waiting import WaitingSales

SALE_BYTES = 4 + 4  # beside a waiting sale: its page, and its place among those to be asked for by name
_NAMED_SHARE = 8  # one key is asked for by name, besides the oldest, for so many rows of a page
_BUCKETS = 128  # pages of nearly equal shares are reckoned together
_STEPS = 24  # of the points at which a draining queue is looked at

Shares = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Split:
    """M = v_P + (directory) + h_S * v_S, and l * v_P for X-HYBRIDJOIN's resident part."""

    d: int  # rows of a page: D_t, or d_S
    h_S: int  # sales that wait
    l: int = 0  # pages of the resident part: d_N = l * d  # noqa: E741


@dataclass(frozen=True)
class Load:
    """What a window of sales costs, in numbers that no unit cost enters."""

    sales: float  # of the window
    hits: float  # of them are served by the resident part
    reads: float  # of pages
    waiting: float  # sales on average, from read to read

    @property
    def w(self) -> float:
        """Sales served for each page that is read."""
        return float(self.sales / self.reads) if self.reads else self.sales


def named(d: int) -> int:
    """The most keys that are asked for by name with a page of d rows."""
    return 1 + d // _NAMED_SHARE


def page_bytes(d: int, relation: Relation) -> float:
    """v_P: a page may have grown to 2 d rows before it is split."""
    return (2 * d + named(d)) * relation.row_bytes


def directory_bytes(d: int, relation: Relation) -> float:
    return PageDirectory.bytes_for(pages(d, relation), relation.words)


def resident_rows(d: int, l: int) -> int:  # noqa: E741
    """l pages, some larger than d, with what was asked for by name along with them."""
    return l * d + l * d // 8 + named(d) if l else 0


def resident_bytes(d: int, l: int, relation: Relation) -> float:  # noqa: E741
    """l * v_P, and a use counter for each page of R."""
    if not l:
        return 0.0
    return ResidentPages.bytes_for(resident_rows(d, l), pages(d, relation), relation.v_R, relation.words)


def sale_bytes(h_S: int, relation: Relation) -> int:
    return WaitingSales.bytes_for(h_S, relation.words) + h_S * SALE_BYTES


def least_bytes(relation: Relation) -> int:
    """The least that works: one sale, and pages of the size that makes buffer and directory together smallest."""
    return math.ceil(min(_fixed(d, 0, relation) for d in _page_sizes(relation))) + sale_bytes(1, relation)


@lru_cache(maxsize=1_024)
def split(memory: float, relation: Relation, stream: Stream, costs: UnitCosts, resident: bool = False) -> Split:
    """The d (and l) of the greatest service rate: the papers' "standard calculus", done by looking.

    Where there is no room for a resident page, X-HYBRIDJOIN does without.
    """
    candidates = list(_candidates(memory, relation, resident)) or list(_candidates(memory, relation, False))
    if not candidates:
        return Split(1, 1)
    return best(candidates, lambda parts: rate(parts, relation, stream, costs))


def rate(parts: Split, relation: Relation, stream: Stream, costs: UnitCosts) -> float:
    """mu with this split."""
    return _rate(parts, load(parts, relation, stream), costs)


def load(parts: Split, relation: Relation, stream: Stream) -> Load:
    """Reads of pages for a window, when a page's rows are wanted with a share q_j of the sales.

    A page is first needed by some sale, and read when that sale has become the oldest, T sales later. So it is read
    every 1 / q_j + T sales, and then serves 1 + q_j T of them. T follows from how many wait:

        h_S = sum q_j T (1 + q_j T / 2) / (1 + q_j T)

    and a sale costs sum q_j / (1 + q_j T) reads. With equal shares, and pages few for h_S, this is the paper's
    w ~ h_S D_t / R_t (equation 2, whose factor -1/k = 0.74 was fitted to pages sorted by frequency; ours is 2, for
    sales that came after the oldest have waited half its time). The first h_S sales of a window find nobody waiting,
    and until these have been served the queue is younger than later on.
    """
    counts, q = _shares(relation.R_t, stream.e, pages(parts.d, relation), parts.l)
    hit, q = q[0] * (1 - stream.absent), q[1:] * (1 - stream.absent) + stream.absent / pages(parts.d, relation)
    counts = counts[1:]
    sales = stream.batch * (1 - hit)  # that wait
    again = parts.l * stream.batch / stream.life  # reads of pages of the resident part that grew too old
    if sales <= 0 or not (counts * q).sum() > 0:
        return Load(stream.batch, stream.batch - max(0.0, sales), again, 0.0)
    q = q / (counts * q).sum()
    h = min(float(parts.h_S), sales)
    at_first, waiting = _drained(counts, q, h)
    beyond = 0.0
    if sales > h:
        beyond, reached = _first_round(counts, q, h, sales)
        if reached < sales:
            T = _age(counts, q, h)
            beyond += (sales - reached) * float((counts * q / (1 + q * T)).sum())
    reads = at_first + beyond + again
    return Load(stream.batch, stream.batch - sales, reads, (at_first * waiting + beyond * h) / reads)


def predict(
    memory: float,
    relation: Relation,
    stream: Stream,
    costs: UnitCosts,
    resident: bool = False,
    planned: Stream | None = None,
) -> Prediction:
    """What the join does with this stream, also when it has split its memory for another that was `planned`."""
    parts = split(memory, relation, planned or stream, costs, resident)
    window = load(parts, relation, stream)
    mu = _rate(parts, window, costs)
    shares = {
        "sales": sale_bytes(parts.h_S, relation),
        "page": int(page_bytes(parts.d, relation)),
        "directory": int(directory_bytes(parts.d, relation)),
    }
    if resident:
        shares["resident"] = int(resident_bytes(parts.d, parts.l, relation))
    reads = mu * window.reads / window.sales if window.sales else 0.0
    return Prediction(
        algorithm="x-hybridjoin" if resident else "hybridjoin",
        memory=int(memory),
        split=shares,
        parameters={
            "w": min(window.w, window.sales),
            "h_S": parts.h_S,
            "k": parts.d,
            **({"l": parts.l} if resident else {}),
        },
        mu=mu,
        processing_time=window.waiting / mu * (1 - window.hits / max(1.0, window.sales)),
        queries=reads,
        rows=reads * min(parts.d, relation.R_t),
    )


def _rate(parts: Split, window: Load, costs: UnitCosts) -> float:
    """mu = w / c_loop, with

    c_loop = c_IO(v_P) + h_S c_W + d c_H + w (c_O + c_E + c_S + c_A)

    The resident part is probed with the sales that come in, not the other way round: w c_F instead of d_N c_H.
    """
    c_loop = costs.page(parts.d) + costs.lookup.item + costs.loop + window.waiting * costs.c_W + parts.d * costs.c_H
    waited = window.sales - window.hits
    seconds = window.reads * c_loop + window.sales * (costs.c_S + costs.c_O) + waited * (costs.c_A + costs.c_E)
    seconds += window.sales * costs.c_F * bool(parts.l)
    return float(window.sales / seconds) if seconds else 0.0


def _candidates(memory: float, relation: Relation, resident: bool) -> Iterator[Split]:
    for d in reversed(_page_sizes(relation)):  # of equally good ones the largest: fewer reads until all is known
        most = memory - _fixed(d, 0, relation)
        for l in grid(1, pages(d, relation), 14) if resident else [0]:  # noqa: E741
            h_S = _capacity(most - resident_bytes(d, l, relation), relation.words)
            if h_S:
                yield Split(d, h_S, l)


def _capacity(memory: float, words: int) -> int:
    """The most sales that fit, with what is kept beside them."""
    if memory <= 0:
        return 0
    alone = WaitingSales.capacity_for(memory, words)
    fits = WaitingSales.capacity_for(memory - alone * SALE_BYTES, words)
    if not fits and alone and WaitingSales.bytes_for(1, words) + SALE_BYTES <= memory:
        return 1
    return fits


def _fixed(d: int, l: int, relation: Relation) -> float:  # noqa: E741
    return page_bytes(d, relation) + directory_bytes(d, relation) + resident_bytes(d, l, relation)


def _page_sizes(relation: Relation) -> list[int]:
    """Sizes worth looking at, those among them with which the least memory goes."""
    sizes = grid(1, relation.R_t, 30)
    smallest = min(sizes, key=lambda d: _fixed(d, 0, relation))
    return sorted({*sizes, *grid(smallest / 2, smallest * 2, 12)})


def pages(d: int, relation: Relation) -> int:
    return max(1, -(-relation.R_t // d))


@lru_cache(maxsize=256)
def _sorted_pages(R_t: int, e: float, pages: int) -> Shares:
    shares: Shares = np.sort(Zipf(R_t, e).of_pages(pages))[::-1]
    return shares


@lru_cache(maxsize=4_096)
def _shares(R_t: int, e: float, pages: int, l: int) -> tuple[Shares, Shares]:  # noqa: E741
    """How many pages have which share, most wanted first; those of the l most wanted pages together come before."""
    q = _sorted_pages(R_t, e, pages)
    l = min(l, len(q))  # noqa: E741
    edges = np.unique(np.geomspace(1, len(q) - l + 1, _BUCKETS).astype(np.int64)) - 1 + l if len(q) > l else [l]
    sums = np.concatenate([[0.0], np.cumsum(q)])
    counts = np.diff(edges).astype(np.float64)
    within = np.diff(sums[np.asarray(edges)]) / counts
    return np.concatenate([[1.0], counts]), np.concatenate([[sums[l]], within])


def _age(counts: Shares, q: Shares, h: float) -> float:
    """T, by bisection: it is between h, if all sales want different pages, and 2 h, if each page serves many."""
    low, high = h, 2 * h
    for _ in range(14):
        T = (low + high) / 2
        if (counts * q * T * (1 + q * T / 2) / (1 + q * T)).sum() < h:
            low = T
        else:
            high = T
    return (low + high) / 2


def _first_round(counts: Shares, q: Shares, h: float, sales: float) -> tuple[float, float]:
    """The reads opened by sales behind the first h until all these have been served, and how many have come by then.

    While the sale at the head is the s-th, `come` sales have come, and a page opened by it serves 1 + q (come - s).
    """
    closed = np.exp(-q * h)  # the share of such pages that nobody waits for
    come, reads, step = h, 0.0, h / _STEPS
    for s in np.linspace(step / 2, h - step / 2, _STEPS):
        opened = q * np.exp(-q * s) * step
        served = float((counts * opened * (1 + q * (come - s))).sum())
        part = min(1.0, (sales - come) / served) if served > 1e-9 else 1.0
        after = closed * np.exp(-q * served * part) + opened * part * np.exp(-q * served * part / 2)
        reads += float((counts * (closed + opened * part - after)).sum())
        come, closed = come + served * part, after
        if part < 1:
            return reads, sales
    return reads, come


def _drained(counts: Shares, q: Shares, h: float) -> tuple[float, float]:
    """The reads that serve h sales which came at once, and how many of them wait, averaged over these reads.

    When the first `a` of them have been served, the pages that none of those wanted are still to be read.
    """
    a = np.linspace(0, h, _STEPS)
    unread = np.exp(-q[:, None] * a)
    reads = (counts[:, None] * (1 - unread)).sum(axis=0)
    waiting = ((counts * q)[:, None] * unread).sum(axis=0) * (h - a)
    area = float((np.diff(reads) * (waiting[1:] + waiting[:-1]) / 2).sum())
    total = max(1.0, float(reads[-1]))
    return total, area / max(float(reads[-1]), 1e-12)
