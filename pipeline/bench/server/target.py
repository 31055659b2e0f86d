"""The target `mysql`: joins on a real server whose page pool is much smaller than R, in real time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, fields, replace
from functools import lru_cache

import pyarrow as pa

from pipeline import joins
from pipeline.advise import calibrate
from pipeline.bench.charged.known import accounting, settings
from pipeline.bench.charged.machines import MACHINES
from pipeline.bench.charged.target import predicted, sizes
from pipeline.bench.charged.told import options
from pipeline.bench.point.points import Point
from pipeline.bench.point.target import Measured
from pipeline.bench.server.database import BenchServer
from pipeline.bench.server.real_time import RealTrial, rounds
from pipeline.bench.workload.sources import Data
from pipeline.bench.workload.stream import Sales
from pipeline.config.settings import MasterData
from pipeline.errors import BudgetTooSmall, NotUnique
from pipeline.joins import Join, Options
from pipeline.joins.cost.unit_costs import Line, UnitCosts
from pipeline.master.port import MasterTable, ReadCount

_SALES = 2_000_000  # or as many as R has rows, before they come round again: fewer would flatter the caches
_WARM_UP = 1.0, 120.0  # seconds, at least and at most: a scan of 20 M rows takes 30
_STRETCH = 0.5  # seconds
_STRETCHES = 6
_LONGEST = 60.0  # seconds, until what waited first has left
_READS_LAST, _STEPS_LAST = 2.0, 600.0  # seconds for which a calibration counts: a disk's speed changes within a minute
_OF_READS = ("scan", "borders", "lookup", "overlapped", "page")  # unit costs that are the server's


@dataclass
class _Calibrated:
    """Unit costs, and when they were measured."""

    costs: UnitCosts
    at: float


Known = dict[object, _Calibrated]


class OnServer:
    """
    Idea
        A point is a table on the server, a join over it, and sales that always wait. What counts begins when what
        waited first is gone, and lasts three seconds, or until what waits then has gone too. The unit costs of our
        models are calibrated on the same table right before and right after, and the mean is taken: the prediction is
        for the server and the machine as they were.

    Departures from `charged`
        No arrivals and no curves: they need a clock that waits for nobody. `chained` is the server's affair.
        `pool` too: it has one for all points (`pipeline/bench/server/database.py`), beside which its own process takes
        memory.
    """

    name = "mysql"

    def __init__(self, given: MasterData | None = None) -> None:
        self._server = BenchServer(given)
        self._steps: Known = {}  # of the joins, by table and memory
        self._reads: Known = {}  # of the server, by table
        self.tells = told(self._server.variables())

    def versions(self) -> Mapping[str, str]:
        return self._server.variables()

    def close(self) -> None:
        self._server.close()

    def measure(self, point: Point, seed: int) -> Measured:
        if point.arrivals or point.curve or not point.join:
            return Measured(refused="Only a join for which sales always wait is measured on a server.")
        with self._server.master(point.rows, point.indexed) as master:
            try:
                joins.check(point.join, master, point.memory_bytes, _options(point, UnitCosts()))
            except (BudgetTooSmall, NotUnique) as refusal:
                return Measured(refused=str(refusal))
            before = self._costs(master, point)
            join = joins.make(point.join, master, point.memory_bytes, _options(point, before))
            numbers = self._run(join, _keys(point, seed))
            costs = between(before, self._costs(master, point))
            prediction = joins.predict(point.join, point.memory_bytes, join.relation, _options(point, costs))
        return Measured(numbers=numbers | sizes(prediction), predicted=predicted(prediction))

    def _run(self, join: Join, keys: pa.Array) -> dict[str, float]:
        trial = RealTrial(join, keys)
        trial.warm_up(*_WARM_UP)
        counted, counters = deepcopy(join.statistics), self._server.counters()
        enough = rounds(join)
        while len(trial.rates) < _STRETCHES or (trial.sales < enough and trial.seconds < _LONGEST):
            trial.run(_STRETCH)
        counts = join.statistics - counted
        reads = {kind: trial.reads.by_kind.get(kind, ReadCount()) for kind in ("scan", "page", "lookup")}
        queries = sum(count.queries for count in reads.values())
        numbers = {
            "rate": trial.rate,
            "processing_time": trial.processing_time,
            "sales": trial.sales,
            "seconds": trial.seconds,
            "hits": counts.hits,
            "misses": counts.misses,
            "matched": counts.matched,
            "unmatched": counts.unmatched,
            "steps": counts.steps,
            "queries": queries,
            "rows_read": sum(count.rows for count in reads.values()),
            **{f"{kind}_queries": count.queries for kind, count in reads.items()},
            **{name: count - counters[name] for name, count in self._server.counters().items()},
            "load": os.getloadavg()[0],  # who else is at work
        }
        if queries:
            numbers |= {
                "c_loop": trial.seconds / queries,
                "sales_a_query": trial.sales / queries,
                "queries_a_second": queries / trial.seconds,
            }
        return {name: float(number) for name, number in numbers.items()}

    def _costs(self, master: MasterTable, point: Point) -> UnitCosts:
        """Measured on this table, for joins with so much memory, not too long ago."""
        table = (tuple(sorted(map(str, point.R.items()))), point.indexed)
        memory = point.memory_bytes
        steps = _fresh(self._steps, (table, memory), _STEPS_LAST, lambda: calibrate.own_steps_of(master, memory=memory))
        reads = _fresh(self._reads, table, _READS_LAST, lambda: calibrate.reads_of(master, steps))
        return replace(steps, **{name: getattr(reads, name) for name in _OF_READS})


def _fresh(known: Known, of: object, seconds: float, measure: Callable[[], UnitCosts]) -> UnitCosts:
    """Known costs, measured anew if they are older than so many seconds."""
    if of not in known or time.monotonic() - known[of].at > seconds:
        known[of] = _Calibrated(measure(), time.monotonic())
    return known[of].costs


def told(variables: Mapping[str, str]) -> str:
    """What stands behind the numbers.

    >>> told({"version": "9.7.4", "innodb_buffer_pool_size": "23068672", "innodb_flush_method": "O_DIRECT"})
    'a real server: version 9.7.4, a page pool of 23 MB, O_DIRECT'
    """
    pool = int(variables["innodb_buffer_pool_size"]) / 1e6
    return (
        f"a real server: version {variables['version']}, a page pool of {pool:.0f} MB, "
        f"{variables.get('innodb_flush_method', '')}"
    )


def between(before: UnitCosts, after: UnitCosts) -> UnitCosts:
    """The mean of two calibrations: a machine's speed changes while the joins run."""

    def mean(one: object, other: object) -> object:
        if isinstance(one, Line) and isinstance(other, Line):
            return Line((one.request + other.request) / 2, (one.item + other.item) / 2)
        if isinstance(one, tuple) and isinstance(other, tuple):
            return tuple((name, (seconds + dict(other)[name]) / 2) for name, seconds in one)
        return (one + other) / 2 if isinstance(one, float) and isinstance(other, float) else one

    every = ((unit.name, getattr(before, unit.name), getattr(after, unit.name)) for unit in fields(before))
    return UnitCosts(**{name: mean(one, other) for name, one, other in every})  # type: ignore[arg-type]


def _options(point: Point, costs: UnitCosts) -> Options:
    data = point.data
    shaping = options(
        MACHINES[point.machine],
        data.rows,
        data.law,
        data.skew,
        point.sales.absent,
        settings(point),
        accounting(point),
        time.monotonic,
    )
    return replace(shaping, costs=costs)


def _keys(point: Point, seed: int) -> pa.Array:
    return _drawn(point.data, point.sales.absent, seed)


@lru_cache(maxsize=1)
def _drawn(data: Data, absent: float, seed: int) -> pa.Array:
    sales, pieces, left = Sales(data.rows, data.law, absent, seed), [], max(_SALES, data.rows.rows)
    while left:
        pieces.append(sales.next(left))
        sales.taken(len(pieces[-1]))
        left -= len(pieces[-1])
    return pa.concat_arrays(pieces)
