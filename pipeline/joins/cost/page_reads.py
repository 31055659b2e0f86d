"""How often pages of R are read, when the sale that waits longest says which."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from pipeline.joins.cost.question import Relation, Stream
from pipeline.joins.cost.zipf import Zipf

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

    @property
    def w(self) -> float:
        """Sales served for each page that is read."""
        return float(self.sales / self.reads) if self.reads else self.sales


def page_reads(stream: Stream, R: Relation, pages: int, h_S: int, l: int = 0) -> Load:  # noqa: E741
    """Reads of pages for a window, of which at most h_S sales wait. A page's rows have a share q_j of the sales.

    A page is first needed by some sale, and read when that sale has become the oldest, T sales later. So it is read
    every 1 / q_j + T sales, and then serves 1 + q_j T of them. T follows from how many wait:

        h_S = sum q_j T (1 + q_j T / 2) / (1 + q_j T)

    and a sale costs sum q_j / (1 + q_j T) reads. With equal shares, and pages few for h_S, this is the paper's
    w ~ h_S D_t / R_t (equation 2, whose factor 1.36 was fitted to an R sorted by frequency; ours is 2, for sales that
    came after the oldest have waited half its time). The first h_S sales of a window find no other waiting, and until
    these have been served the queue is younger than later on.
    """
    counts, q = _shares(stream.over(R).about(), pages, l)
    hit, q = q[0] * (1 - stream.absent), q[1:] * (1 - stream.absent) + stream.absent / pages
    counts = counts[1:]
    sales = stream.batch * (1 - hit)  # that wait
    again = l * stream.batch / stream.life  # reads of pages of the resident part that grew too old
    if sales <= 0 or not (counts * q).sum() > 0:
        return Load(stream.batch, stream.batch - max(0.0, sales), again, 0.0)
    q = q / (counts * q).sum()
    h = min(float(h_S), sales)
    at_first, waiting = _drained(counts, q, h)
    beyond = 0.0
    if sales > h:
        beyond, reached = _first_round(counts, q, h, sales)
        if reached < sales:
            T = _age(counts, q, h)
            beyond += (sales - reached) * float((counts * q / (1 + q * T)).sum())
    reads = at_first + beyond + again
    return Load(stream.batch, stream.batch - sales, reads, (at_first * waiting + beyond * h) / reads)


@lru_cache(maxsize=8)
def _sorted_pages(sales: Zipf, pages: int) -> Shares:
    shares: Shares = np.sort(sales.of_pages(pages))[::-1]
    return shares


@lru_cache(maxsize=4_096)
def _shares(sales: Zipf, pages: int, l: int) -> tuple[Shares, Shares]:  # noqa: E741
    """How many pages have which share, most wanted first; those of the l most wanted pages together come before."""
    q = _sorted_pages(sales, pages)
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
    closed = np.exp(-q * h)  # the share of such pages that no sale waits for
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
