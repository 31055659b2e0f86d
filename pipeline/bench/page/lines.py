"""What a figure shows, line by line: of the papers' equations, of our models, and of what was measured."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipeline.bench.charged.target import predict
from pipeline.bench.definition.experiment import Experiment, Place, places_and_points, reduced
from pipeline.bench.equations import EQUATIONS
from pipeline.bench.running.results import PointResult, Result, mean_and_interval, shown

Value = tuple[float, float | None]  # mean, and how far the true one may be from it
Line = dict[float, Value]
Key = tuple[str, float | None]  # series, z


@dataclass(frozen=True)
class Lines:
    """Those of one source."""

    experiment: Experiment  # with the sizes of this source
    of: dict[Key, Line]
    unfinished: frozenset[Key] = frozenset()  # of them some points are still to be run

    def means(self, series: str, z: float | None = None) -> dict[float, float]:
        return {x: mean for x, (mean, _) in self.of.get((series, z), {}).items()}

    def zs(self) -> list[float | None]:
        return list(self.experiment.z.values) if self.experiment.z else [None]


def of_equations(experiment: Experiment) -> Lines:
    """The papers' own equations, for whichever series name one."""
    lines: dict[Key, Line] = {}
    for place, point in places_and_points(experiment):
        if name := experiment.series[place.series].equation:
            lines.setdefault(_key(place), {})[place.x] = (experiment.y.times_of_equation * EQUATIONS[name](point), None)
    return Lines(experiment, lines)


def measured(experiment: Experiment, result: Result) -> Lines:
    """What a target told; series that are models are as they are anywhere."""
    experiment = reduced(experiment, experiment.mysql if result.target == "mysql" else None)
    lines: dict[Key, Line] = {}
    unfinished: set[Key] = set()
    for place, point in places_and_points(experiment):
        series = experiment.series[place.series]
        line = lines.setdefault(_key(place), {})
        if series.by == "operator":
            here = result.at(place)
            if here and here.definition == point.definition:
                line.update(_told(experiment, here))
            else:
                unfinished.add(_key(place))
        elif series.by == "equation":
            line[place.x] = (experiment.y.times_of_equation * EQUATIONS[series.equation](point), None)
        else:
            line.update(_predicted(experiment, place, predict(point)))
    return Lines(experiment, lines, frozenset(unfinished))


def predictions(experiment: Experiment, result: Result) -> Lines:
    """Our models, for the points of a result."""
    experiment = reduced(experiment, experiment.mysql if result.target == "mysql" else None)
    lines: dict[Key, Line] = {}
    for here in result.points:
        for repeat in here.repeats[:1]:
            place = Place(here.series, here.x, here.z)
            lines.setdefault(_key(place), {}).update(_predicted(experiment, place, repeat.measured.predicted))
    return Lines(experiment, lines)


@dataclass
class Refused:
    """Where a join could not work, and why not at the first of these places."""

    at: list[float]
    why: str


def refusals(result: Result) -> dict[str, Refused]:
    """By series."""
    found: dict[str, Refused] = {}
    for here in result.points:
        if here.repeats and (why := here.repeats[0].measured.refused):
            found.setdefault(here.series, Refused([], why)).at.append(here.x)
    return found


def _told(experiment: Experiment, here: PointResult) -> Line:
    if experiment.y.of != "curve":
        return {} if here.mean is None else {here.x: (here.mean, here.interval)}
    curves = np.array([repeat.measured.curve for repeat in here.repeats]) * experiment.y.times
    at = zip(experiment.x.values, map(mean_and_interval, curves.T.tolist()), strict=True)
    return {x: (mean, interval) for x, (mean, interval) in at if mean is not None}


def _predicted(experiment: Experiment, place: Place, numbers: dict[str, float]) -> Line:
    value = shown(experiment.y, numbers)
    return {} if value is None else {place.x: (value, None)}


def _key(place: Place) -> Key:
    return place.series, place.z
