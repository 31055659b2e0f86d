"""All that is known of an experiment: definition, raw results, and the lines that come of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pipeline.bench.definition.experiment import Experiment
from pipeline.bench.page import lines
from pipeline.bench.page.lines import Lines
from pipeline.bench.running.results import Result, Store

TARGETS = ("charged", "mysql")  # in the order of the columns


@dataclass(frozen=True)
class Told:
    experiment: Experiment
    results: Mapping[str, Result]  # by target
    sources: Mapping[str, Lines]  # "equations", and by target
    predicted: Mapping[str, Lines]  # by target


@dataclass(frozen=True)
class Gap:
    """How far our prediction is from what was measured, as a share of that."""

    by: float
    series: str
    x: float
    z: float | None


def gaps(each: Told, target: str) -> list[Gap]:
    """Of every point that has both."""
    measured, predicted = each.sources[target], each.predicted[target]
    return [
        Gap(abs(predicted.of[key][x][0] / mean - 1), key[0], x, key[1])
        for key, line in measured.of.items()
        for x, (mean, _) in line.items()
        if each.experiment.series[key[0]].by == "operator" and mean and x in predicted.of.get(key, {})
    ]


def told(experiment: Experiment, folder: Path) -> Told:
    """With what the folder has of it."""
    loaded = {target: Store(folder, target).load(experiment.name) for target in TARGETS}
    results = {target: result for target, result in loaded.items() if result}
    measured = {target: lines.measured(experiment, result) for target, result in results.items()}
    return Told(
        experiment,
        results,
        {"equations": lines.of_equations(experiment), **measured},
        {target: lines.predictions(experiment, result) for target, result in results.items()},
    )
