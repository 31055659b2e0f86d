"""CMESHJOIN's: equations 1, 3 and 4 of cmeshjoin-cikm2013. Its 3 has MESHJOIN's rate only as a proportion; here that of
the same authors' 2010, with the same costs, stands for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pipeline.bench.equations import meshjoin
from pipeline.bench.point.points import Point
from pipeline.joins.cost.zipf import Zipf
from pipeline.joins.published import cmeshjoin as paper


def rate(point: Point) -> float:
    """Equation 4: MESHJOIN's with what the cache leaves it, over 1 - p_N; with the cache of the point, or the best."""
    h_R = _cache(point)
    left = point.memory_bytes - (paper.SLOT + point.rows.row_bytes) * h_R
    return meshjoin.rate_within(left, point) / (1 - _hit_share(h_R, point))


def best_cache(point: Point) -> float:
    """h_R*, in rows: the root of the derivative with the term that equation 6 lacks. For e = 1, as the paper's."""
    return paper.best_h_R(paper.Setting(point.memory_bytes, point.rows.rows, point.rows.row_bytes))


def bound(point: Point) -> float:
    """What no cache exceeds: MESHJOIN with all of the memory, over 1 - p_N of a cache that has all of it too."""
    setting = paper.Setting(point.memory_bytes, point.rows.rows, point.rows.row_bytes)
    return meshjoin.rate_within(point.memory_bytes, point) / (1 - _hit_share(int(setting.most), point))


EQUATIONS: Mapping[str, Callable[[Point], float]] = {
    "cmeshjoin rate": rate,
    "cmeshjoin best cache": best_cache,
    "cmeshjoin bound": bound,
}


def _cache(point: Point) -> int:
    by_hand = point.settings.get("cmeshjoin", {}).get("h_R", 0)
    return int(by_hand or best_cache(point))


def _hit_share(h_R: int, point: Point) -> float:
    """Equation 1, for any exponent."""
    return Zipf(point.rows.rows, point.data.skew).share(h_R)
