"""Unit costs of the cost models, measured: what the master table's reads and the joins' own steps take here and now."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from statistics import mean
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.advise.calibrate_joins import FLOW_MEMORY, OWN_STEPS_MEMORY, in_flow, own_steps
from pipeline.advise.calibrate_steps import steps_of, steps_of_waiting
from pipeline.joins.cost.unit_costs import Line, UnitCosts
from pipeline.master.port import Master

_SAMPLE = 40_000  # keys, spread evenly over R
_SECONDS = 0.4  # at least so long is each kind of read tried
_TRIALS = 5
_FEW_KEYS, _MANY_KEYS = 250, 2_000  # of a look-up
_LEAST_REQUEST, _LEAST_ITEM = 1e-6, 1e-9  # seconds

Say = Callable[[str], None]


@dataclass(frozen=True)
class Sample:
    """Keys from all over R, in random order, so that the server's cache helps no more than it will in a running job."""

    keys: pa.Array
    rows: int  # of R


def calibrate(master: Master, connections: int = 2, say: Say = lambda line: None, memory: int = 32 << 20) -> UnitCosts:
    """Measure every unit cost on this master, for joins with so much memory. Takes some ten seconds.

    Where R has no index on the key, the costs of look-ups and pages stay the built-in ones: nothing can use them.
    """
    rows = master.statistics().rows
    say(f"{rows:,} rows")
    return reads_of(master, own_steps_of(master, say, memory), connections, say)


def own_steps_of(master: Master, say: Say = lambda line: None, memory: int = 32 << 20) -> UnitCosts:
    """The joins' own steps, on rows of this master, for joins with so much memory."""
    steps: dict[str, Any] = steps_of(master, memory)
    say("own steps: " + ", ".join(f"{name} {seconds * 1e9:.0f} ns" for name, seconds in steps.items()))
    costs = replace(UnitCosts(), scan=_scan(master), **steps)
    tried = own_steps(master, _waiting(costs, master, OWN_STEPS_MEMORY))
    iterations = ", ".join(f"{name} {seconds * 1e3:.2f} ms" for name, seconds in tried.loops)
    say(f"a key asked for: {tried.c_K * 1e9:.0f} ns; an iteration: {iterations or 'not measured'}")
    return replace(costs, c_K=tried.c_K, loops=tried.loops)


def reads_of(master: Master, costs: UnitCosts, connections: int = 2, say: Say = lambda line: None) -> UnitCosts:
    """These costs, with what this master's reads take now."""
    costs = replace(costs, scan=_scan(master))
    say(f"scan: {_told(costs.scan)}")
    if not master.indexed:
        return costs
    rows = master.statistics().rows
    started = time.perf_counter()
    firsts = master.borders(max(1, rows // _SAMPLE))
    costs = replace(costs, borders=(time.perf_counter() - started) / max(1, rows))
    order = np.random.default_rng(0).permutation(len(firsts))
    sample = Sample(firsts.take(pa.array(order)), rows)
    costs = replace(costs, lookup=_look_up(master, sample))
    say(f"look-up: {_told(costs.lookup)}")
    costs = replace(costs, overlapped=_overlapped(master, sample, costs, connections))
    say(f"look-ups in auto's flow: {_told(costs.overlapped)}")
    costs = replace(costs, page=_page(master, firsts, rows))
    say(f"page: {_told(costs.page)}")
    return costs


def _scan(master: Master) -> Line:
    """Each read goes on where the one before it ended: what was just read would come from the server's memory."""
    position: bytes | None = None

    def reads(rows: int) -> Iterator[float]:
        nonlocal position
        while True:
            started = time.perf_counter()
            scan = master.scan(position, rows)
            took = time.perf_counter() - started
            position = scan.position
            if len(scan.rows) == rows or position is None:
                yield took

    return _line(reads, 500, 2_000, 8_000)  # a read's cost bends: a server reads ahead only where much is asked for


def _look_up(master: Master, sample: Sample) -> Line:
    def reads(keys: int) -> Iterator[float]:
        for some in _pieces(sample, keys):
            started = time.perf_counter()
            master.lookup(some)
            yield time.perf_counter() - started

    return _line(reads, 1, _MANY_KEYS)


def _overlapped(master: Master, sample: Sample, costs: UnitCosts, connections: int) -> Line:
    """As auto's fetching stage asks; on a table too small for a flow, as one look-up after the other."""
    if len(sample.keys) < 2 * _MANY_KEYS or not master.unique:
        return Line(costs.lookup.request + costs.loop, costs.lookup.item + costs.c_K)
    costs = _waiting(costs, master, FLOW_MEMORY)
    points = [in_flow(master, sample.keys, batch, costs, connections) for batch in (_FEW_KEYS, _MANY_KEYS)]
    return _through(*points)


def _waiting(costs: UnitCosts, master: Master, memory: int) -> UnitCosts:
    """These costs, for what is done to waiting sales in so little memory as a join is tried with."""
    steps: dict[str, Any] = steps_of_waiting(master, memory)
    return replace(costs, **steps)


def _page(master: Master, firsts: pa.Array, R_t: int) -> Line:
    """As the joins read pages: from one border to the next, with a key asked for by name."""
    apart = max(1, R_t // _SAMPLE)  # rows from one of `firsts` to the next

    def reads(rows: int) -> Iterator[float]:
        borders = firsts.take(pa.array(np.arange(0, len(firsts), rows // apart)))
        keys = borders.to_pylist()
        order = np.random.default_rng(0).permutation(max(1, len(keys) - 1))
        for number in range(1 << 30):
            page = int(order[number % len(order)])
            until = keys[page + 1] if page + 1 < len(keys) else None
            started = time.perf_counter()
            master.page(keys[page], until, 2 * rows, borders.slice(page, 1))
            yield time.perf_counter() - started

    few, many = max(1, min(50, R_t // 4)), max(2, min(8_000, R_t // 2))
    return _line(reads, -(-few // apart) * apart, -(-many // apart) * apart)


def _line(reads: Callable[[int], Iterator[float]], *sizes: int) -> Line:
    """The straight line by the usual times of small and of large requests."""
    return _through(*((size, _typical(reads(size))) for size in sizes))


def _through(*points: tuple[float, float]) -> Line:
    """The straight line whose errors, as shares of the seconds that were measured, are the least (squared).

    What is left of a measurement may be nothing, or less, and a small or a paced server may give as many rows for a
    large request as for a small one: then there is no slope to be told.
    """
    sizes, measured = np.array(points).T
    seconds = np.maximum(measured, _LEAST_REQUEST)
    if np.ptp(sizes) < 1:
        return Line(float(seconds.mean()), _LEAST_ITEM)
    (request, item), *_ = np.linalg.lstsq(np.column_stack([1 / seconds, sizes / seconds]), np.ones(len(points)))
    return Line(max(float(request), _LEAST_REQUEST), max(float(item), _LEAST_ITEM))


def _typical(times: Iterator[float]) -> float:
    next(times)  # opens connections
    taken: list[float] = []
    while sum(taken) < _SECONDS or len(taken) < _TRIALS:
        taken.append(next(times))
    # A rate is made of all reads: the slowest fiftieth alone is 7 % of a scan. One pause of the machine is not usual.
    return mean(sorted(taken)[:-1])


def _pieces(sample: Sample, keys: int) -> Iterator[pa.Array]:
    keys = min(keys, max(1, len(sample.keys)))
    while True:
        for start in range(0, len(sample.keys) - keys + 1, keys):
            yield sample.keys.slice(start, keys)


def _told(line: Line) -> str:
    return f"{line.request * 1e3:.2f} ms + {line.item * 1e6:.2f} us each"
