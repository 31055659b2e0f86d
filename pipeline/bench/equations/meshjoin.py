"""MESHJOIN's: equations 1 to 6 of meshjoin-icde2007, 1 to 5 of meshjoin-default-vs-optimal-2010."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from pipeline.bench.charged.machines import MACHINES
from pipeline.bench.point.points import Point
from pipeline.bench.workload.laws import results
from pipeline.joins.published import meshjoin as paper
from pipeline.joins.published.unit_costs import UnitCosts

# Of a sale: 20 bytes, 4.8 times in the hash table, and a pointer of 4. b counts pages of one row, so it is fine.
_OF_2010 = paper.DEF2010


def rate(point: Point) -> float:
    """mu, with the disk buffer of the point, or the best one."""
    return rate_within(point.memory_bytes, point)


def rate_within(memory: float, point: Point) -> float:
    """The same in another memory than the point's."""
    setting, costs = _asked(point)
    pages = point.buffer_rows or paper.fastest(memory, setting, costs)
    return paper.mu_within(memory, pages, setting, costs)


def best_buffer(point: Point) -> float:
    """b*, in bytes."""
    setting, costs = _asked(point)
    return paper.fastest(point.memory_bytes, setting, costs) * setting.v_P


def least_memory(point: Point) -> float:
    """M for a rate, with the disk buffer of the point, or the best one."""
    assert point.search
    setting, costs = _asked(point)
    arrivals = point.search.rate
    return paper.memory_for(arrivals, point.buffer_rows or paper.leanest(arrivals, setting, costs), setting, costs)


def io_cost(point: Point) -> float:
    """c_IO of a byte, in a read of the whole disk buffer."""
    setting, costs = _asked(point)
    size = point.buffer_rows * setting.v_R
    return costs.c_IO(size) / size


def c_loop(point: Point) -> float:
    """Equation 2: seconds of an iteration, with so many sales as the memory has room for."""
    setting, costs = _asked(point)
    pages = point.buffer_rows or paper.fastest(point.memory_bytes, setting, costs)
    return paper.c_loop(pages, paper.w_within(point.memory_bytes, pages, setting), setting, costs)


EQUATIONS: Mapping[str, Callable[[Point], float]] = {
    "meshjoin rate": rate,
    "meshjoin best buffer": best_buffer,
    "meshjoin least memory": least_memory,
    "meshjoin I/O cost a byte": io_cost,
    "meshjoin c_loop": c_loop,
}


def _asked(point: Point) -> tuple[paper.Setting, UnitCosts]:
    """sigma b v_P / v_R is what an iteration puts out: the results of w sales, so they are charged with a sale."""
    v_R, costs = point.rows.row_bytes, MACHINES[point.machine].as_published()
    setting = replace(_OF_2010, n_R=point.rows.rows, v_R=v_R, v_P=v_R)
    return setting, replace(costs, c_A=costs.c_A + results(point.rows, point.data.law).mean * costs.c_O, c_O=0.0)
