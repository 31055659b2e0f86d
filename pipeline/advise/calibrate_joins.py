"""What an iteration of each join takes beside its counted steps: measured on the joins themselves, without a server."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import pyarrow as pa

from pipeline import joins
from pipeline.joins import JOINS, Join, Options
from pipeline.joins.cost.inlj import PER_TUPLE
from pipeline.joins.cost.question import Stream
from pipeline.joins.cost.unit_costs import Line, UnitCosts
from pipeline.master.memory import MemoryMaster
from pipeline.master.port import Master, Reads, Scan

T = TypeVar("T")

_ROWS = 20_000
_ROUND_TRIP = 5e-4  # seconds
OWN_STEPS_MEMORY = 1 << 20
_SECONDS = 0.5
_OFFER = 8_192
_SKEW = 0.5
FLOW_MEMORY = 4 << 20
_LEAST_QUERIES = 3
_NEVER = Line(1.0, 1.0)  # seconds: so dear a way is not chosen by auto, which then takes another


@dataclass(frozen=True)
class Beside:
    """What an iteration takes that its counted steps do not explain."""

    seconds: float
    keys: float  # asked for in it


def own_steps(master: Master, costs: UnitCosts) -> UnitCosts:
    """These costs, with `loops` and c_K as the joins themselves take them."""
    rows = master.scan(None, _ROWS).rows
    if len(rows) < _ROWS // 10 or not master.unique:
        return costs  # too small to show anything
    here, sold = _Timed(rows), _sales(rows["key"].combine_chunks())
    bare = replace(costs, c_K=0.0)
    one, few, many = (_beside("inlj", here, sold, bare, batch) for batch in (1, 50, 2_000))
    c_K = max(1e-8, (many.seconds - few.seconds) / max(1.0, many.keys - few.keys))
    costs = replace(costs, c_K=c_K)
    loops = {PER_TUPLE: one.seconds - c_K, "inlj": few.seconds - c_K * few.keys}
    for name, join in JOINS.items():
        if name not in loops and not join.has_front_stage:
            loops[name] = _beside(name, here, sold, costs).seconds
    return replace(costs, loops=tuple((name, max(1e-5, float(seconds))) for name, seconds in loops.items()))


def in_flow(master: Master, keys: pa.Array, batch: int, costs: UnitCosts, connections: int) -> tuple[float, float]:
    """How many keys a look-up had, and its seconds, when auto's fetching stage asks for all of these by name.

    Only so can be told how much of its own work is done while the server works: nothing is added up here.
    """
    by_name = replace(costs, scan=_NEVER, page=_NEVER)
    options = Options(settings=_batched("fetch", batch), costs=by_name, connections=connections)
    fetch = joins.make("fetch", master, FLOW_MEMORY, options)
    _run(fetch, keys, _SECONDS / 5)  # opens connections
    master.reads.by_kind.pop("lookup", None)
    count, served, took = master.reads.by_kind["lookup"], fetch.statistics.offered - fetch.pending, 0.0
    while count.queries < _LEAST_QUERIES:  # far away, or paced, half a second may bring none
        took += _run(fetch, keys, _SECONDS)
    sales = fetch.statistics.offered - fetch.pending - served
    steps = sales * (costs.c_S + costs.c_A + costs.c_O + costs.c_E)
    return count.rows / count.queries, (took - steps) / count.queries


def _beside(name: str, master: _Timed, sold: pa.Array, costs: UnitCosts, batch: int = 0) -> Beside:
    costs = replace(costs, loop=0.0)
    settings = _batched(name, batch) if batch else {}
    options = Options(settings=settings, costs=costs, stream=Stream(e=_SKEW, batch=1 << 40))
    join = joins.make(name, master, OWN_STEPS_MEMORY, options)
    _run(join, sold, _SECONDS / 2)
    served, reading = join.statistics.offered - join.pending, master.seconds
    master.reads = Reads()
    took = _run(join, sold, _SECONDS)
    sales = join.statistics.offered - join.pending - served
    iterations = sum(count.queries for count in master.reads.by_kind.values())
    if not iterations or not sales:
        return Beside(UnitCosts().loop, 1.0)
    own = took - (master.seconds - reading)
    beside = own - _counted(name, join, options) * sales
    return Beside(beside / iterations, master.reads.by_kind["lookup"].rows / iterations)


def _batched(name: str, batch: int) -> dict[str, object]:
    return {name: joins.recipe(name).main.Settings(batch=batch)}


def _counted(name: str, join: Join, options: Options) -> float:
    """Seconds a sale that the model gives neither to reading nor to the loop."""
    recipe, costs = joins.recipe(name), options.costs
    p = recipe.model.predict(recipe.question(OWN_STEPS_MEMORY, join.relation, options))
    most_read = max(join.master.reads.by_kind.items(), key=lambda kind: kind[1].queries)[0]
    line = {"scan": costs.scan, "page": costs.page}.get(most_read, costs.lookup)
    return (1 - p.queries * line.request - p.rows * line.item) / p.mu


def _run(join: Join, sold: pa.Array, seconds: float) -> float:
    """An endless stream for so long."""
    began, position = time.perf_counter(), join.statistics.offered
    while (took := time.perf_counter() - began) < seconds:
        while True:
            at = position % len(sold)
            piece = sold.slice(at, _OFFER)
            taken = join.offer(np.arange(position, position + len(piece)), piece)
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
    """Counts the seconds in which answers were waited for: they are not the join's own. It sleeps as long as a server
    would take, because a join that has just waited runs slower than one that never waits."""

    seconds = 0.0

    def lookup(self, keys: pa.Array) -> pa.Table:
        return self._timed(lambda: super(_Timed, self).lookup(keys))

    def scan(self, position: bytes | None, rows: int, until: bytes | None = None) -> Scan:
        return self._timed(lambda: super(_Timed, self).scan(position, rows, until))

    def page(self, first: object, until: object, rows: int, also: pa.Array | None = None) -> pa.Table:
        return self._timed(lambda: super(_Timed, self).page(first, until, rows, also))

    def _timed(self, read: Callable[[], T]) -> T:
        began = time.perf_counter()
        try:
            time.sleep(_ROUND_TRIP)
            return read()
        finally:
            self.seconds += time.perf_counter() - began
