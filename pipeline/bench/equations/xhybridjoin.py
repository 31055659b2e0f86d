"""X-HYBRIDJOIN's: equations 4 to 9 of x-hybridjoin-kais2013, 9 with the mean or with the variance as printed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from pipeline.bench.charged.machines import MACHINES
from pipeline.bench.point.points import Point
from pipeline.joins.cost.search import peak
from pipeline.joins.published import xhybridjoin as paper
from pipeline.joins.published.unit_costs import UnitCosts


def rate(point: Point) -> float:
    """mu, with d_S and d_N of the point; what it leaves open is tuned."""
    setting, costs = _asked(point)
    return paper.mu(setting, costs)


def rate_as_printed(point: Point) -> float:
    setting, costs = _asked(point)
    return paper.mu(setting, costs, paper.w_as_printed)


def c_loop(point: Point) -> float:
    setting, costs = _asked(point)
    return paper.c_loop(paper.w_by_the_mean(setting), setting, costs)


def by_the_resident_part(point: Point) -> float:
    """Sales that the non-swappable part serves in an iteration."""
    return paper.by_the_resident_part(1, _asked(point)[0])


def by_the_resident_part_as_printed(point: Point) -> float:
    return paper.by_the_resident_part(1, _asked(point)[0], paper.w_as_printed)


EQUATIONS: Mapping[str, Callable[[Point], float]] = {
    "x-hybridjoin rate": rate,
    "x-hybridjoin rate, 9 as printed": rate_as_printed,
    "x-hybridjoin c_loop": c_loop,
    "x-hybridjoin sales by the resident part": by_the_resident_part,
    "x-hybridjoin sales by the resident part, 9 as printed": by_the_resident_part_as_printed,
}


def _asked(point: Point) -> tuple[paper.Setting, UnitCosts]:
    """A page of the point's d rows, one of them swappable; or, if that is left open, of one row, k and l tuned."""
    costs, settings = MACHINES[point.machine].as_published(), point.settings
    v_R, d_S = point.rows.row_bytes, point.buffer_rows or int(settings.get("d", 0))
    setting = replace(paper.KAIS2013, M=point.memory_bytes, R_t=point.rows.rows, v_R=v_R, v_P=float(v_R))
    untuned = settings.get("l", -1) == 1
    if d_S and untuned:
        return replace(setting, k=d_S, l=d_S), costs
    if untuned:
        most = int(setting.M / v_R / 2) - 1
        k = peak(lambda k: paper.mu(replace(setting, k=k, l=k), costs), 1, min(most, setting.R_t // 2))
        return replace(setting, k=k, l=k), costs
    if d_S and (d_N := int(settings.get("d_N", -1))) >= 0:
        return replace(setting, k=d_S, l=d_N), costs
    return paper.tuned(replace(setting, v_P=paper.KAIS2013.v_P), costs), costs
