"""What an iteration of each join takes beside its counted steps: measured on the joins themselves, without a server."""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa

from pipeline import joins
from pipeline.joins.base import Join, Options
from pipeline.joins.cost.units import Stream, UnitCosts
from pipeline.master.memory import MemoryMaster
from pipeline.master.port import Master, Scan

_ROWS = 20_000
_MEMORY = 1 << 20
_SECONDS = 0.5
_OFFER = 8_192
_SKEW = 0.5


def own_loops(master: Master, costs: UnitCosts) -> dict[str, float]:
    """By join: the seconds of an iteration that its counted steps do not explain."""
    rows = master.scan(None, _ROWS).rows
    if len(rows) < _ROWS // 10 or not master.unique:
        return {}  # too small to show anything
    here, sold = _Timed(rows), _sales(rows["key"].combine_chunks())
    return {name: _loop(name, here, sold, costs) for name in joins.JOINS if not joins.has_front_stage(name)}


def _loop(name: str, master: _Timed, sold: pa.Array, costs: UnitCosts) -> float:
    options = Options(costs=costs, stream=Stream(e=_SKEW, batch=1 << 40))
    join = joins.make(name, master, _MEMORY, options)
    _run(join, sold, _SECONDS / 2)
    steps, offered, reading = join.statistics.steps, join.statistics.offered - join.pending, master.seconds
    asked = {kind: count.queries for kind, count in master.reads.by_kind.items()}
    took = _run(join, sold, _SECONDS)
    steps, sales = join.statistics.steps - steps, join.statistics.offered - join.pending - offered
    if not steps or not sales:
        return costs.loop
    own = (took - (master.seconds - reading)) / sales
    kind = max(master.reads.by_kind, key=lambda kind: master.reads.by_kind[kind].queries - asked.get(kind, 0))
    return max(1e-5, float(costs.loop + (own - _own_by_model(name, kind, join, options)) * sales / steps))


def _own_by_model(name: str, kind: str, join: Join, options: Options) -> float:
    """Seconds a sale that the model does not give to reading."""
    p = joins.predict(name, _MEMORY, join.relation, options)
    line = {"scan": options.costs.scan, "page": options.costs.page}.get(kind, options.costs.lookup)
    return (1 - p.queries * line.request - p.rows * line.item) / p.mu


def _run(join: Join, sold: pa.Array, seconds: float) -> float:
    """An endless stream for so long."""
    began, position = time.perf_counter(), join.statistics.offered
    while (took := time.perf_counter() - began) < seconds:
        while True:
            at = position % (len(sold) - _OFFER)
            taken = join.offer(np.arange(position, position + _OFFER), sold.slice(at, _OFFER))
            position += taken
            if not taken:
                break
        join.step()
    return took


def _sales(keys: pa.Array) -> pa.Array:
    """Skewed a little, and all over the rows."""
    random = np.random.default_rng(0)
    ranks = random.permutation(len(keys))
    weights = 1 / np.arange(1, len(keys) + 1) ** _SKEW
    return keys.take(pa.array(ranks[random.choice(len(keys), 200_000, p=weights / weights.sum())]))


class _Timed(MemoryMaster):
    """Knows how long it was asked for answers: that time is not the join's."""

    seconds = 0.0

    def lookup(self, keys: pa.Array) -> pa.Table:
        began = time.perf_counter()
        try:
            return super().lookup(keys)
        finally:
            self.seconds += time.perf_counter() - began

    def scan(self, position: bytes | None, rows: int, until: bytes | None = None) -> Scan:
        began = time.perf_counter()
        try:
            return super().scan(position, rows, until)
        finally:
            self.seconds += time.perf_counter() - began

    def page(self, first: object, until: object, rows: int, also: pa.Array | None = None) -> pa.Table:
        began = time.perf_counter()
        try:
            return super().page(first, until, rows, also)
        finally:
            self.seconds += time.perf_counter() - began
