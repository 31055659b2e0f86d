"""An experiment as its file says it, and the points that come of it. The format: `deploy/docs/experiments.md`.

What shapes a point is put together from layers, each over the ones before it: `always`, the series, z, x, and
what a reduction (`smoke`, or that of a target) has instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec

from pipeline.bench.charged import known
from pipeline.bench.definition.claims import Claim
from pipeline.bench.point.points import Point
from pipeline.errors import MillraceError


class _Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Refuses what it does not know."""


class Axis(_Strict, frozen=True, kw_only=True):
    """x; and z, of which every series has one for each value."""

    name: str  # as the figure has it, with its unit
    values: list[float]
    sets: dict[str, str] = {}  # which parts of a point, as what: {memory = "{} MB"}
    told: str = ""  # a value in a legend, "{} MB"; else the name and the value
    log: bool = False

    def say(self, value: float) -> str:
        """A value for a reader."""
        return self.told.format(f"{value:g}") if self.told else f"{self.name} {value:g}"


class Shown(_Strict, frozen=True, kw_only=True):
    """y: a measured number, perhaps of another one (`per`), so many times."""

    name: str
    of: str  # a name in Measured.numbers; "curve"
    per: str = ""
    times: float = 1.0
    log: bool = False
    from_zero: bool = True
    times_of_equation: float = 1.0  # an equation gives the whole of y, perhaps in another unit


class Series(_Strict, frozen=True, kw_only=True):
    """One line of a figure."""

    label: str
    by: Literal["operator", "equation", "prediction"] = "operator"
    equation: str = ""  # the paper's own for the same, of pipeline/bench/equations
    x: list[float] = []  # not all
    sets: dict[str, str] = {}  # what x sets, if it is not what it sets for the others
    seeds: int = 0  # if not as many as for the others
    ours: bool = False  # not in the paper's figure
    point: dict[str, Any] = {}  # what is left: over `always`


class Printed(_Strict, frozen=True, kw_only=True):
    """A point of the paper's own that its text gives as a number."""

    x: float
    y: float
    series: str
    where: str
    z: float | None = None


class Reduction(_Strict, frozen=True, kw_only=True):
    """The same experiment with other sizes."""

    x: list[float] = []
    z: list[float] = []
    series: list[str] = []  # not all
    seeds: int = 0
    always: dict[str, Any] = {}  # over the file's own
    over: dict[str, dict[str, Any]] = {}  # over a series'
    because: str = ""  # why these sizes


class Experiment(_Strict, frozen=True, kw_only=True):
    paper: str
    figure: str
    title: str
    remark: str = ""  # what else a reader of the result should know
    x: Axis
    y: Shown
    z: Axis | None = None
    always: dict[str, Any]
    series: dict[str, Series]
    seeds: int = 3
    printed: list[Printed] = []
    claims: list[Claim] = []
    smoke: Reduction
    mysql: Reduction | None = None

    @property
    def name(self) -> str:
        return f"{self.paper}/{self.figure}"

    def seeds_of(self, series: str) -> range:
        """With which it is repeated."""
        return range(1, 1 + (self.series[series].seeds or self.seeds))


class Place(msgspec.Struct, frozen=True):
    """Where in a figure a point stands."""

    series: str
    x: float
    z: float | None = None


def reduced(experiment: Experiment, reduction: Reduction | None) -> Experiment:
    """The same with other sizes. Claims at places that are left out move to the place of the same rank."""
    if reduction is None:
        return experiment
    x, z = reduction.x or experiment.x.values, reduction.z or (experiment.z.values if experiment.z else [])
    near = _ranks(experiment.x.values, x)
    series = {
        key: msgspec.structs.replace(
            each,
            x=sorted({near[value] for value in each.x}),
            seeds=reduction.seeds or each.seeds,
            point=merged(each.point, reduction.over.get(key, {})),
        )
        for key, each in experiment.series.items()
        if not reduction.series or key in reduction.series
    }
    near_z = _ranks(experiment.z.values, z) if experiment.z else {}
    claims = [
        msgspec.structs.replace(
            claim,
            x=[near[value] for value in claim.x],
            z=None if claim.z is None else near_z[claim.z],
        )
        for claim in experiment.claims
    ]
    return msgspec.structs.replace(
        experiment,
        x=msgspec.structs.replace(experiment.x, values=x),
        z=msgspec.structs.replace(experiment.z, values=z) if experiment.z else None,
        seeds=reduction.seeds or experiment.seeds,
        always=merged(experiment.always, reduction.always),
        series=series,
        claims=claims,
    )


def places_and_points(experiment: Experiment) -> Iterator[tuple[Place, Point]]:
    """All points of a figure; a curve has one a series, at its first x."""
    for key, series in experiment.series.items():
        for z in experiment.z.values if experiment.z else [None]:
            for x in series.x or experiment.x.values:
                parts = merged({"machine": experiment.paper}, experiment.always)
                parts = merged(parts, series.point)
                if experiment.z and z is not None:
                    parts = _with(parts, experiment.z, z)
                parts = _with(parts, experiment.x, x, series.sets)
                if "curve" in parts:
                    parts["curve"] = parts["curve"] | {"at": experiment.x.values}
                try:
                    point = msgspec.convert(parts, Point)
                    known.check(point)
                    if not point.join and not point.curve and series.by != "equation":
                        raise ValueError("a point that is run needs a join, or a curve")
                except (MillraceError, ValueError) as wrong:
                    raise ValueError(f"series {key} at x = {x:g}: {wrong}") from None
                yield Place(key, x, z), point
                if point.curve:
                    break


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Tables within tables; what is above wins.

    >>> merged({"R": {"rows": 5, "row_bytes": 120}, "memory": 1}, {"R": {"rows": 7}})
    {'R': {'rows': 7, 'row_bytes': 120}, 'memory': 1}
    """
    both = dict(below)
    for key, value in above.items():
        inner = both.get(key)
        both[key] = merged(inner, value) if isinstance(inner, Mapping) and isinstance(value, Mapping) else value
    return both


def _with(parts: Mapping[str, Any], axis: Axis, value: float, sets: Mapping[str, str] | None = None) -> dict[str, Any]:
    """A value put where its axis says, as it says it."""
    whole = int(value) if float(value).is_integer() else value
    put = dict(parts)
    for path, form in (sets or axis.sets).items():
        inner: Any = whole if form == "{}" else form.format(f"{value:.12g}")
        for key in reversed(path.split(".")):
            inner = {key: inner}
        put = merged(put, inner)
    return put


def _ranks(values: list[float], fewer: list[float]) -> dict[float, float]:
    """For each value that of the same rank among fewer ones.

    >>> _ranks([1.0, 2.0, 3.0], [10.0, 20.0])
    {1.0: 10.0, 2.0: 10.0, 3.0: 20.0}
    """
    last = max(1, len(values) - 1)
    return {value: fewer[rank * (len(fewer) - 1) // last] for rank, value in enumerate(values)}
