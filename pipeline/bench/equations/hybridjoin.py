"""HYBRIDJOIN's: equations 1 to 4 and theorem 1 of hybridjoin-2011."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from pipeline.bench.charged.machines import MACHINES
from pipeline.bench.point.points import Point
from pipeline.joins.published import hybridjoin as paper
from pipeline.joins.published.unit_costs import UnitCosts


def rate(point: Point) -> float:
    """mu, with the disk buffer of the point, or the best one."""
    setting, costs = _asked(point)
    return paper.mu(_buffer(point, setting, costs), setting, costs)


def best_buffer(point: Point) -> float:
    """v_P*, in bytes."""
    setting, costs = _asked(point)
    return paper.fastest(setting, costs) * setting.v_R


def c_loop(point: Point) -> float:
    """Equation 3, with equation 2's w."""
    setting, costs = _asked(point)
    v_P = _buffer(point, setting, costs)
    return paper.c_loop(v_P, _w(v_P, setting), setting, costs)


def io_cost(point: Point) -> float:
    """c_IO of one disk buffer."""
    setting, costs = _asked(point)
    return costs.c_IO(_buffer(point, setting, costs))


def pages_by_theorem_1(point: Point) -> float:
    """The most pages that are read for a sale: each once while as many sales come as can wait."""
    setting, costs = _asked(point)
    v_P = _buffer(point, setting, costs)
    return 1 / paper.w_of_meshjoin(paper.H_t(v_P, setting), paper.D_t(v_P, setting), setting.R_t)


EQUATIONS: Mapping[str, Callable[[Point], float]] = {
    "hybridjoin rate": rate,
    "hybridjoin best buffer": best_buffer,
    "hybridjoin c_loop": c_loop,
    "hybridjoin c_IO": io_cost,
    "hybridjoin pages a sale, theorem 1": pages_by_theorem_1,
}


def _w(v_P: float, setting: paper.Setting) -> float:
    return paper.w(paper.H_t(v_P, setting), paper.D_t(v_P, setting), setting.R_t)


def _buffer(point: Point, setting: paper.Setting, costs: UnitCosts) -> float:
    rows = point.buffer_rows or int(point.settings.get("d", 0)) or paper.fastest(setting, costs)
    return rows * setting.v_R


def _asked(point: Point) -> tuple[paper.Setting, UnitCosts]:
    setting = replace(paper.HYBRIDJOIN2011, M=point.memory_bytes, R_t=point.rows.rows, v_R=point.rows.row_bytes)
    return setting, MACHINES[point.machine].as_published()
