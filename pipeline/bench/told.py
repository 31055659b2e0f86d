"""All that is known of an experiment: definition, raw results, and the lines that come of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pipeline.bench import lines
from pipeline.bench.definition import Experiment
from pipeline.bench.lines import Lines
from pipeline.bench.results import Result, Store

TARGETS = ("charged", "mysql")  # in the order of the columns


@dataclass(frozen=True)
class Told:
    experiment: Experiment
    results: Mapping[str, Result]  # by target
    sources: Mapping[str, Lines]  # "equations", and by target
    predicted: Mapping[str, Lines]  # by target


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
