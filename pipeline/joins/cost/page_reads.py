"""How often pages of R are read, when the sale that waits longest says which."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from pipeline.joins.cost.lookups import NOTHING, Touched, anywhere, side_by_side
from pipeline.joins.cost.named_keys import left_over, named
from pipeline.joins.cost.next_page import waits_for_the_best
from pipeline.joins.cost.question import Relation, Stream
from pipeline.joins.cost.search import crossing
from pipeline.joins.cost.zipf import Order, Zipf

_BUCKETS = 128  # pages of nearly equal shares are reckoned together
_STEPS = 24  # of the points at which a draining queue is looked at

Shares = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Load:
    """What a window of sales costs, in numbers that no unit cost enters."""

    sales: float  # of the window
    hits: float  # of them are served by the resident part
    reads: float  # of pages
    waiting: float  # sales on average, from read to read
    by_name: float = 0.0  # keys, besides the oldest sales', that were not on their page: asked for with another one
    blocks: Touched = NOTHING  # that this reads, if R is on a disk
    often: Shares = field(default_factory=lambda: np.ones(1))  # of the reads, the shares that serve unlike numbers
    served: Shares = field(default_factory=lambda: np.ones(1))  # of sales, as multiples of w

    @property
    def w(self) -> float:
        """Sales served for each page that is read."""
        return float(self.sales / self.reads) if self.reads else self.sales


@dataclass(frozen=True)
class Pages:
    """Pages, those of nearly equal shares together, most wanted first; and what the resident ones have."""

    resident: float  # share of the sales, of all resident pages
    counts: Shares
    q: Shares  # the share of one page


def page_reads(
    stream: Stream,
    R: Relation,
    pages: int,
    h_S: int,
    l: float = 0,  # noqa: E741
    first: bool = False,
    a_block: float = 0.0,
    best: bool = False,
) -> Load:
    """Reads of pages for a window, of which at most h_S sales wait. A page's rows have a share q_j of the sales.

    A page is first needed by some sale, and read when that sale has become the oldest, T sales later. So it is read
    every 1 / q_j + T sales, and then serves 1 + q_j T of them. T follows from how many wait:

        h_S = sum q_j T (1 + q_j T / 2) / (1 + q_j T)

    and a sale costs sum q_j / (1 + q_j T) reads. With equal shares, and pages few for h_S, this is the paper's
    w ~ h_S D_t / R_t (equation 2, whose factor 1.36 was fitted to an R sorted by frequency; ours is 2, for sales that
    came after the oldest have waited half its time). The first h_S sales of a window find no other waiting, and until
    these have been served the queue is younger than later on.

    The l pages wanted most are resident, or, if `first`, R's first. A sale without a row is taken to belong where a
    sale with one would. `a_block`: the rows of a disk's block, which is read for keys that are asked for by name.
    `best`: not the sale that waits longest says which page is read, but what is worth most; then T is another one for
    each page.
    """
    there = grouped(stream.over(R).about(), R.order, pages, l, first)
    counts, q = there.counts, there.q
    hits = stream.batch * there.resident * (1 - stream.absent)
    sales = stream.batch * (1 - there.resident)  # that need a page to be read
    again = l * stream.batch / stream.life  # reads of pages of the resident part that grew too old
    if sales <= 0 or not (counts * q).sum() > 0:
        return Load(stream.batch, hits, again, 0.0)
    q = np.minimum(1.0, q / (counts * q).sum())
    h = min(float(h_S), sales)
    at_first, waiting = _drained(counts, q, h)
    beyond, T = 0.0, np.full(len(q), h)
    if sales > h:
        beyond, reached = _first_round(counts, q, h, sales)
        T = waits_for_the_best(counts, q, h) if best else _ages(counts, q, h)
        if reached < sales:
            beyond += (sales - reached) * float((counts * q / (1 + q * T)).sum())
    reads = at_first + beyond + again
    often = counts * q / (1 + q * T)
    served = (1 + q * T) * often.sum() / (often * (1 + q * T)).sum()
    load = Load(
        stream.batch,
        hits,
        reads,
        (at_first * waiting + beyond * h) / reads,
        often=often / often.sum(),
        served=served,
    )
    if not stream.absent:
        return load
    keys, blocks = _unfound(stream, R, pages, there, T, a_block)
    if l:
        others, more = _of_resident(stream, R, pages, l, first, stream.batch / reads, a_block)
        keys, blocks = keys + others, blocks + more
    return replace(load, by_name=keys * reads, blocks=blocks * reads)


def _unfound(stream: Stream, R: Relation, pages: int, there: Pages, T: Shares, a_block: float) -> tuple[float, Touched]:
    """Keys without a row that a read leaves on its page, but for its oldest sale's, and the blocks they belong in."""
    q, zipf, rows = there.q / (there.counts * there.q).sum(), stream.over(R), R.R_t / pages
    if R.order == "by frequency":
        of_a_page = -rows * np.expm1(-stream.absent * q * T / rows)
    else:
        sales = float((there.counts * q * T).sum()) / max(1e-9, 1 - there.resident)
        of_a_page = np.full(len(q), zipf.distinct(stream.absent * sales) / pages)
    often = there.counts * q / (1 + q * T)
    often = often / often.sum()
    blocks = NOTHING
    if a_block:
        pages_together = 1 + left_over(of_a_page, often, named(round(rows)) - 1)
        blocks = anywhere(of_a_page / pages_together, 1 + rows / a_block, often) * pages_together
    return float((often * of_a_page).sum()), blocks


def _of_resident(
    stream: Stream,
    R: Relation,
    pages: int,
    l: float,  # noqa: E741
    first: bool,
    sales: float,
    a_block: float,
) -> tuple[float, Touched]:
    """Keys without a row, of so many sales, that belong on a page which is resident; and the blocks."""
    zipf, rows = stream.over(R), l * R.R_t / pages
    wanted = -np.expm1(-sales * stream.absent * zipf.buckets[1])
    if R.order == "by frequency":
        edges = np.append(np.arange(0.0, rows, a_block or rows), rows)
        of_a_block = np.diff(zipf.of_first(wanted, edges))
        return float(of_a_block.sum()), side_by_side(of_a_block)
    hot, every = zipf.of_first(wanted, np.array([0.0 if first else float(l), float(R.R_t)]))
    keys = np.array([float(hot + (every - hot) * l / pages)])
    blocks = anywhere(keys / l, 1 + R.R_t / pages / a_block, np.ones(1)) * l if a_block else NOTHING
    return float(keys[0]), blocks


@lru_cache(maxsize=8)
def _sorted_pages(sales: Zipf, pages: int) -> Shares:
    shares: Shares = np.sort(sales.of_pages(pages))[::-1]
    return shares


@lru_cache(maxsize=4_096)
def grouped(sales: Zipf, order: Order, pages: int, l: float, first: bool) -> Pages:  # noqa: E741
    l = min(l, pages)  # noqa: E741
    whole = int(l)  # of a page that is resident in part, the others of its rows are still read
    edges = np.unique(np.geomspace(1, pages - whole + 1, _BUCKETS).astype(np.int64)) - 1 + whole
    if order == "by frequency":
        ends = np.concatenate([[l], np.maximum(l, edges)])
        of_first = sales.of_first(sales.buckets[1], ends * (sales.rows / pages))
        resident, sums = float(of_first[0]), of_first[1:]
    else:
        q = np.concatenate([[0.0], np.cumsum(_sorted_pages(sales, pages))])
        resident, sums = float(q[whole]), q[edges]
        if first:  # they are like any others
            left = np.unique(np.geomspace(1, pages + 1, _BUCKETS).astype(np.int64)) - 1
            return Pages(l / pages, np.diff(left) * (1 - l / pages), np.diff(q[left]) / np.diff(left))
    counts = np.diff(edges).astype(np.float64)
    return Pages(resident, counts, np.diff(sums) / counts)


def _ages(counts: Shares, q: Shares, h: float) -> Shares:
    """T of each page, by looking for that of the page wanted most.

    A page with a large share moves the queue: as many sales come at once as it has served, the next ones for it among
    them. So on average it has q_j / 2 more of them waiting than if they came one by one. With the one wanted most, from
    one of its reads to the next L sales come, q L of them at once at the start. Another page is read while the other
    (1 - q) L come; if it is not wanted again before the next q L come at once, then by one of these, which waits until
    the page wanted most has been read again, and as many more have come.
    """
    top = float(q.max())

    def waiting(L: float) -> float:
        T = _ages_beside(q, top, L)
        return float((counts * q * T * (1 + q * T * (1 + q) / 2) / (1 + q * T)).sum())

    return _ages_beside(q, top, crossing(waiting, h, h / 2, 2 * h))


def _ages_beside(q: Shares, top: float, L: float) -> Shares:
    wanted = np.maximum(1e-9, q * L)
    one_by_one = wanted * max(0.0, 1 - top) + 1e-9
    at_once = -np.expm1(-one_by_one) / one_by_one  # how likely the page is not wanted before these
    behind = 1 / wanted - 1 / np.expm1(np.minimum(wanted, 500.0))  # of L, where it is wanted then
    T: Shares = np.where(q == top, L, L + top * L * at_once * (1 - behind))
    return T


def _first_round(counts: Shares, q: Shares, h: float, sales: float) -> tuple[float, float]:
    """The reads opened by sales behind the first h until all these have been served, and how many have come by then.

    While the sale at the head is the s-th, `come` sales have come, and a page opened by it serves 1 + q (come - s).
    """
    step = h / _STEPS
    s = np.linspace(step / 2, h - step / 2, _STEPS)
    opened = q * np.exp(-q * s[:, None]) * step  # pages that the sales from step to step open
    number = opened @ counts
    closed = np.exp(-q * h)  # the share of such pages that no sale waits for
    # What they serve, as far as it does not depend on `come`, and for each sale more that has come.
    at_least, each = number - s * (opened @ (counts * q)), opened @ (counts * q)
    come, reads = h, 0.0
    for turn in range(_STEPS):
        served = float(at_least[turn] + come * each[turn])
        part = min(1.0, (sales - come) / served) if served > 1e-9 else 1.0
        half = np.exp(q * (-served * part / 2))
        after = half * (closed * half + opened[turn] * part)
        reads += float(number[turn] * part + (closed - after) @ counts)
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
