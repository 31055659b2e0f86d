"""What the models of `partitioned` and `ssij` share: sales wait in a slot for their page of R.

Neither description comes with a cost model (x-hybridjoin-kais2013, section 2, says so of SSIJ). This one is ours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from pipeline.joins.cost.inlj import Batched
from pipeline.joins.cost.prediction import Prediction
from pipeline.joins.cost.question import Question, Relation
from pipeline.joins.cost.search import best, grid
from pipeline.joins.cost.slot_reads import Asking
from pipeline.joins.cost.slot_simulation import Rules, play
from pipeline.joins.cost.zipf import Zipf
from pipeline.joins.parts import bypage
from pipeline.joins.parts.budget import most_that_fit
from pipeline.joins.parts.pagecache import PageCache
from pipeline.joins.parts.pages import PageDirectory
from pipeline.joins.parts.waiting import WaitingSales

PAGE_BYTES = 4 + 8 + bypage.PAGE_BYTES  # of each page: its waiting sales, its worth, the chain of their keys
KEY_BYTES = bypage.KEY_BYTES + 4  # of each waiting key: where it lies, the step it came in
PENDING_SHARE = 8  # ssij: one sale of so many may be in the pending phase
_MOST_KEPT = 256  # pages: a step looks at those that serve, one after the other
_REREAD = 10  # windows in which a page that is kept is read once
_BY_NAME = "asks by name: the directory of pages short enough to be read does not fit"
_CACHE_SHARES = (0, 1 / 8, 1 / 4, 1 / 2)


@dataclass(frozen=True)
class Split:
    """M = h_S * v_S + k * v_P + 2 d * v_R + h_R * v_R."""

    d: int  # rows between two borders of the directory
    k: int  # pages
    h_S: int  # sales waiting
    b: int  # rows read at once, and keys a look-up
    h_R: int  # rows kept of pages that were read
    directory: int  # bytes
    cache: int  # bytes

    @property
    def reads_pages(self) -> bool:
        """Whether a page can be read whole. With less memory for the directory its keys are asked for by name."""
        return 2 * self.d <= self.b

    @property
    def threshold(self) -> int:
        """Sales in a slot that call for a read: what the fullest has when sales come evenly and h_S of them wait.

        A slot that is read at L sales holds L / 2 in the mean, so that k slots hold h_S when L = 2 h_S / k.
        """
        return max(1, round(2 * self.h_S / self.k))

    @property
    def pages_kept(self) -> int:
        return min(self.k, self.h_R // self.d)


def least_bytes(R: Relation, pending: bool) -> int:
    """One sale, one row and a directory of one page."""
    return math.ceil(_fixed(1, 1, R) + _sales_bytes(1, R, pending))


@lru_cache(maxsize=64)
def divide(question: Question[Batched], pending: bool) -> Split:
    """Page size and cache by the model's own estimate; the waiting sales get the rest.

    `pending`: the sales pass a pending phase (ssij).
    """
    memory, R = question.memory, question.R
    zipf = question.stream.over(R)
    whole = []
    for d in grid(1, max(1, R.R_t)):
        k = -(-max(1, R.R_t) // d)
        rest = memory - _fixed(k, 2 * d, R)
        for share in _CACHE_SHARES:
            h_S = _capacity(rest * (1 - share), R, pending)
            h_R = PageCache.rows_for(rest * share, R.v_R, R.words)
            if h_S >= 1 and (not share or 2 * d <= h_R <= _MOST_KEPT * d):
                whole.append(Split(d, k, h_S, 2 * d, h_R, _directory(k, R), int(rest * share)))
    if whole:
        return best(whole, lambda parts: -_seconds_a_sale(parts, question, zipf))
    return _by_name(question, pending)


def _by_name(question: Question[Batched], pending: bool) -> Split:
    """No whole page fits beside the directory of such short pages: few long ones, whose keys are asked for by name."""
    memory, R = question.memory, question.R
    spare = max(0, memory - least_bytes(R, pending))
    k = max(1, min(R.R_t, int(spare / 8 / _fixed(1, 0, R))))
    b = max(1, min(question.settings.batch, int(spare / 4 / R.row_bytes)))
    h_S = max(1, _capacity(memory - _fixed(k, b, R), R, pending))
    d = max(b, -(-R.R_t // k))
    return Split(d, k, h_S, b, 0, _directory(k, R), 0)


def _directory(k: int, R: Relation) -> int:
    return int(PageDirectory.bytes_for(k, R.words)) + 1


def _fixed(k: int, rows: int, R: Relation) -> float:
    return _directory(k, R) + 1.25 * k * PAGE_BYTES + rows * R.row_bytes


def _sales_bytes(h_S: int, R: Relation, pending: bool) -> float:
    # A sale in the pending phase: its position and code, twice when the phase ends.
    waiting = WaitingSales.bytes_for(h_S, R.words) + h_S * KEY_BYTES
    return waiting + (pending_sales(h_S) * 2 * (8 + 8 * R.words) if pending else 0)


def pending_sales(h_S: int) -> int:
    """The threshold of the pending phase."""
    return max(1, h_S // PENDING_SHARE)


def _capacity(memory: float, R: Relation, pending: bool) -> int:
    """The most waiting sales that fit into so many bytes."""
    return most_that_fit(
        memory,
        lambda number: _sales_bytes(number, R, pending),
        max(0, WaitingSales.capacity_for(max(0.0, memory), R.words)),
    )


def _seconds_a_sale(parts: Split, question: Question[object], zipf: Zipf) -> float:
    """A quick estimate, for a stream that is even over the pages but for the few most wanted rows."""
    stream, costs, kept = question.stream, question.costs, parts.pages_kept
    # A page that is kept is not free: it came in once, and is read again when it has expired.
    hits = 0.0 if not kept else (zipf.share(kept) + (1 - zipf.share(kept)) * kept / parts.k) * (1 - stream.absent)
    misses = max(1.0, stream.batch * (1 - hits))
    h = min(float(parts.h_S), misses)
    # At the end of a window every slot in use is read; before, the fullest ones, each of about 2 h / k.
    reads = parts.k * -np.expm1(-h / parts.k) + (misses - h) / max(1.0, 2 * h / parts.k) + kept / _REREAD
    return float(reads * (costs.loop + costs.page(parts.d) + parts.d * costs.c_H)) / stream.batch


def outcome(parts: Split, question: Question[object], pending: bool) -> Prediction:
    """mu = h / c_loop of a window of h sales."""
    R, stream, costs = question.R, question.stream, question.costs
    window, asking = max(1, stream.batch), Asking(parts, question)
    rules = Rules(
        shares=stream.over(R).of_pages(parts.k, R.order),
        h_S=parts.h_S,
        kept=parts.pages_kept,
        by_utility=pending,
        lot=pending_sales(parts.h_S) if pending else 1,
        threshold=math.inf if pending else parts.threshold,
        absent=stream.absent,
        by_name=not parts.reads_pages,
        queries=asking.queries,
    )
    played = play(rules, window)
    misses = window - played.hits
    queries, rows, seconds = asking.costs(played.turns)
    again = parts.pages_kept * window / stream.life  # reads of those kept that grew too old
    queries, rows, seconds = queries + again, rows + again * parts.d, seconds + again * costs.page(parts.d)
    seconds += queries * costs.loop
    if pending:  # the pending phase is filled by offers of its own
        seconds += misses / pending_sales(parts.h_S) * costs.c_P
    seconds += window * (costs.c_S + costs.c_F + costs.c_O) + misses * (costs.c_A + costs.c_E)
    return Prediction(
        split={
            "sales": int(_sales_bytes(parts.h_S, R, pending)),
            "directory": parts.directory + parts.k * PAGE_BYTES,
            "page": int(parts.b * R.row_bytes),
            "cache": parts.cache,
        },
        parameters={"h_S": parts.h_S, "d": parts.d, "k": parts.k, "h_R": parts.h_R, "threshold": parts.threshold},
        mu=window / seconds,
        processing_time=seconds / window * played.waiting,  # Little: so long is the mean over all sales
        queries=queries / seconds,
        rows=rows / seconds,
        remark="" if parts.reads_pages else _BY_NAME,
    )
