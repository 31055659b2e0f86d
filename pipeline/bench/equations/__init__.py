"""The papers' own equations (pipeline/joins/published) by name, asked of a point of an experiment."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pipeline.bench.equations import cmeshjoin, hybridjoin, meshjoin, xhybridjoin
from pipeline.bench.point.points import Point

Equation = Callable[[Point], float]

EQUATIONS: Mapping[str, Equation] = {
    **meshjoin.EQUATIONS,
    **hybridjoin.EQUATIONS,
    **xhybridjoin.EQUATIONS,
    **cmeshjoin.EQUATIONS,
}
