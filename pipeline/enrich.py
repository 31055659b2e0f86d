"""3 Sales to enriched sales: each window goes through the dimensions' joins and comes back in its own order.

A dimension and its join outlast the micro-batch; between two of them nothing is pending, only master rows are kept.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from copy import copy, deepcopy
from dataclasses import replace
from itertools import islice

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipeline import columns, keys
from pipeline.answers.histogram import Histogram
from pipeline.answers.task import DimensionAnswer
from pipeline.config.contracts import DimensionContract
from pipeline.config.settings import WorkerSettings
from pipeline.joins.algorithm import ABSENT, Positions, Served, by_sale
from pipeline.joins.asof import ValidRows
from pipeline.joins.cost.prediction import Prediction
from pipeline.joins.join import Join
from pipeline.news import News

Predict = Callable[[int], Prediction]  # what the cost model expects in windows of so many sales


def enrich(sales: pa.Table, dimensions: Sequence[Dimension], limits: WorkerSettings) -> Iterator[pa.Table]:
    """The sales with the columns of all dimensions: in one piece, unless a master's keys repeat and make more."""
    steady = [dimension for dimension in dimensions if dimension.one_row_each]
    together, apart = _by_turns(sales, steady, limits)
    apart += [dimension for dimension in dimensions if dimension not in steady]
    yield from _one_after_another(together, apart, limits)


def _by_turns(
    sales: pa.Table, dimensions: Sequence[Dimension], limits: WorkerSettings
) -> tuple[pa.Table, list[Dimension]]:
    """While the server works for one dimension, others are probed.

    Also given: the dimensions, if any, whose keys repeat all of a sudden: an index was dropped in mid-run.
    """
    pieces: dict[str, list[pa.Table]] = {dimension.contract.name: [] for dimension in dimensions}
    under_way = deque((dimension.contract.name, dimension.enrich(sales, limits)) for dimension in dimensions)
    while under_way:
        name, steps = under_way.popleft()
        for piece in islice(steps, 1):
            under_way.append((name, steps))
            if piece is not None:
                pieces[name].append(piece)
    together, apart = sales, []
    for dimension in dimensions:
        own = pieces.pop(dimension.contract.name)
        if sum(map(len, own)) > len(sales):
            apart.append(dimension)
            continue
        for column in own[0].column_names[sales.num_columns :]:
            together = together.append_column(column, own[0][column])
    return together, apart


def _one_after_another(sales: pa.Table, dimensions: Sequence[Dimension], limits: WorkerSettings) -> Iterator[pa.Table]:
    """The pieces of one dimension are the next one's sales."""
    if not dimensions:
        yield sales
        return
    for piece in dimensions[0].enrich(sales, limits):
        if piece is not None:
            yield from _one_after_another(piece, dimensions[1:], limits)


class Dimension:
    """One dimension of the sales: gives each sale its master row by way of a join."""

    def __init__(self, contract: DimensionContract, join: Join, predict: Predict | None = None) -> None:
        self.contract = contract
        self.join = join
        self._predict = predict
        self._known: int | None = None  # of the changes in the master: see `News`
        self.begin_batch(News())

    def begin_batch(self, news: News) -> None:
        """Count from here on, and forget what has changed in the master."""
        self._counts_before = copy(self.join.statistics)
        self._reads_before = deepcopy(self.join.master.reads)
        self._seconds = 0.0
        self._valid, self._overlapping = 0, 0  # sales, if they are joined as of their time
        self._windows: list[int] = []  # sales in each
        self._queue_wait, self._processing = Histogram(), Histogram()
        changed = news.forgets(self.contract.name, self._known)
        if changed is None or len(changed):
            self.join.changed(changed)
        self._told_until = news.told_until.get(self.contract.name, 0.0)
        self.join.informed(news.age(self.contract.name, time.time()))
        self._known = news.settled

    @property
    def one_row_each(self) -> bool:
        """Whether a sale stays one: no key has more than one row, or only one of them is valid at the sale's time."""
        return self.join.relation.unique or self.contract.validity is not None

    def enrich(self, sales: pa.Table, limits: WorkerSettings) -> Iterator[pa.Table | None]:
        """The sales with this dimension's columns: `product.surrogate_key`, `product.category`, …

        In one piece, in their order; but where the master has keys more than once, there is one row for each match,
        and the rows come in pieces no larger than a window. Between two steps of the join there is a None: a caller
        who has other work does some of it then.
        """
        self._windows.append(len(sales))
        key = keys.pack([sales[columns.of_sale(k.field)] for k in self.contract.natural_key])
        found = self._served(key, _unix_seconds(sales[columns.TIMESTAMP]), limits.window_sales)
        for served in self._as_of(found, sales) if self.contract.validity else found:
            if served is None:
                yield None
                continue
            order, match, rows = by_sale(served, len(sales), self.join.master.schema)
            if order is None:
                yield self._with_columns(sales, match, rows)
                continue
            for first, last in _pieces(sales, order, rows, match, limits):
                yield self._with_columns(sales.take(pa.array(order[first:last])), match[first:last], rows)

    def _as_of(self, found: Iterator[list[Served] | None], sales: pa.Table) -> Iterator[list[Served] | None]:
        """Of what a join found, the rows that were valid at the sales' times: at last every sale, once."""
        named = self.contract.validity
        assert named
        at = sales[columns.of_sale(named.at)]
        valid = ValidRows(named.begins, named.ends, at, self.join.master.schema)
        for served in found:
            valid.add(served or [])
            yield None
        last = valid.served()
        self._valid += int(np.count_nonzero(last.match != ABSENT))
        self._overlapping += valid.overlapping
        yield [last]

    def _with_columns(self, sales: pa.Table, match: Positions, rows: pa.Table) -> pa.Table:
        found = rows.take(pa.array(match, mask=match == ABSENT))
        for column in self.contract.columns.names:
            values = found[column]
            if column == columns.SURROGATE_KEY:
                values = pc.fill_null(values, columns.UNKNOWN_MEMBER)
            sales = sales.append_column(columns.of_dimension(self.contract.name, column), values)
        return sales

    def _served(self, key: pa.Array, sent: np.ndarray, most: int) -> Iterator[list[Served] | None]:
        """Offer and step until every sale has come back: all at once, or about `most` at a time if matches make more.

        After every other step, None. What a caller does meanwhile is not the join's time.
        """
        positions = np.arange(len(key), dtype=np.int64)
        news_is_older = ~((sent > 0) & (sent <= self._told_until))
        admitted_at = np.empty(len(key))
        served: list[Served] = []
        offered = rows = 0
        began = time.perf_counter()
        while offered < len(key) or self.join.pending:
            # The join is filled before it reads: the more sales wait, the more of them a read serves.
            while offered < len(key) and (
                taken := self.join.offer(positions[offered:], key.slice(offered), news_is_older[offered:])
            ):
                admitted_at[offered : offered + taken] = time.monotonic()
                self._queue_wait += Histogram.of(time.time() - sent[offered : offered + taken])
                offered += taken
            pieces = self.join.step(drain=offered == len(key))
            now = time.monotonic()
            for piece in pieces:
                self._processing += Histogram.of(now - admitted_at[piece.sales])
                rows += len(piece.sales)
            served += pieces
            self._seconds += time.perf_counter() - began
            if rows > max(most, len(key)):
                yield served
                served, rows = [], 0
            else:
                yield None
            began = time.perf_counter()
        self._seconds += time.perf_counter() - began
        yield served

    def _predicted(self) -> tuple[float, float]:
        """Service rate and sales served from memory, of this batch's windows as they were: a small one cannot be served
        as fast as a large one. 0: not asked."""
        windows = [sales for sales in self._windows if sales]
        if self._predict is None or not windows:
            return 0.0, 0.0
        expected = [(sales, self._predict(sales)) for sales in windows]
        seconds = sum(sales / prediction.mu for sales, prediction in expected)
        return sum(windows) / seconds, sum(sales * prediction.hits for sales, prediction in expected)

    def answer(self) -> DimensionAnswer:
        counts = self.join.statistics - self._counts_before
        if self.contract.validity:  # the join counts pairs of sale and row, whenever these are valid
            unmatched = sum(self._windows) - self._valid
            counts = replace(counts, matched=self._valid, unmatched=unmatched, overlapping=self._overlapping)
        predicted_rate, predicted_hits = self._predicted()
        ruled_out = counts.ruled_out / max(1, counts.offered)  # they never come to the cache
        return DimensionAnswer(
            algorithm=self.join.label,
            counts=counts,
            reads=self.join.master.reads - self._reads_before,
            seconds=self._seconds,
            predicted_rate=predicted_rate,
            predicted_hits=predicted_hits * (1 - ruled_out),
            memory=self.join.memory_used(),
            memory_limit=int(self.join.memory),
            cached_rows=self.join.cached_rows,
            cached_bytes=self.join.cached_bytes,
            key_filters=int(self.join.knows_all_keys),
            queue_wait=self._queue_wait,
            processing=self._processing,
        )


def _pieces(
    sales: pa.Table, order: Positions, rows: pa.Table, match: Positions, limits: WorkerSettings
) -> Iterator[tuple[int, int]]:
    """Where to cut the matches: each piece has at most a window's rows and, unless one row is larger, its bytes."""
    size = _row_bytes(sales)[order] + np.append(_row_bytes(rows), 0)[match]  # ABSENT, -1, is the last
    behind = np.cumsum(size)
    first = 0
    while first < len(order):
        before = int(behind[first - 1]) if first else 0
        fits = int(np.searchsorted(behind, before + limits.window_bytes, side="right"))
        last = min(len(order), first + limits.window_sales, max(first + 1, fits))
        yield first, last
        first = last


def _row_bytes(table: pa.Table) -> npt.NDArray[np.int64]:
    """The size of each row: exact for texts, which may be of any length."""
    size = np.zeros(len(table), np.int64)
    for column in table.columns:
        if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
            size += np.asarray(pc.fill_null(pc.binary_length(column), 0), np.int64)
        else:
            size += 8
    return size


def _unix_seconds(timestamps: pa.ChunkedArray) -> np.ndarray:
    return np.asarray(timestamps.cast(pa.int64())) / 1e6
