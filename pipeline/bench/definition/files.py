"""The files of experiments, read and checked: whatever is not understood is refused, with the file and the key."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from pipeline.bench.charged import known
from pipeline.bench.charged.machines import MACHINES
from pipeline.bench.definition.experiment import Experiment, Series, places_and_points, reduced
from pipeline.bench.equations import EQUATIONS
from pipeline.config import toml
from pipeline.errors import BadSetting

EXPERIMENTS = Path(__file__).parents[1] / "experiments"


def load(file: Path) -> Experiment:
    """The experiment of a file; refuses whatever is not understood."""
    try:
        document = toml.loads(file.read_text("utf-8"))
        of_series = {field.name for field in msgspec.structs.fields(Series)}
        for key, series in document.get("series", {}).items():
            own = {name: value for name, value in series.items() if name in of_series and name != "point"}
            document["series"][key] = own | {"point": {n: v for n, v in series.items() if n not in own}}
        experiment = msgspec.convert(document, Experiment)
        if (experiment.paper, experiment.figure) != (file.parent.name, file.stem):
            raise ValueError(f"it calls itself {experiment.name}, and lies in {file.parent.name}/{file.name}")
        _check(experiment)
        for reduction in (None, experiment.smoke, experiment.mysql):
            for _ in places_and_points(reduced(experiment, reduction)):
                pass
    except ValueError as wrong:
        raise BadSetting(f"{file.parent.name}/{file.name}: {str(wrong).rstrip('.')}.") from None
    return experiment


def experiments(folder: Path = EXPERIMENTS) -> dict[str, Experiment]:
    """All of a folder, by name, in the papers' order."""
    loaded = map(load, sorted(folder.glob("*/*.toml"), key=_order))
    return {experiment.name: experiment for experiment in loaded}


def _order(file: Path) -> tuple[object, ...]:
    """The oldest paper first; figure 10a behind 9, and what is told in the text alone at the end."""
    paper, figure = file.parent.name, file.stem
    numbers = tuple((int(digits or 0), letters) for digits, letters in re.findall(r"(\d*)(\D*)", figure))
    papers = list(MACHINES)
    return (papers.index(paper) if paper in papers else len(papers), paper, not figure[0].isdigit(), numbers)


def _check(experiment: Experiment) -> None:
    z = experiment.z.values if experiment.z else []
    for key, series in experiment.series.items():
        if not set(series.x) <= set(experiment.x.values):
            raise ValueError(f"series {key} has x = {series.x}, of which some are not among {experiment.x.values}")
        if series.by == "equation" and not series.equation:
            raise ValueError(f"series {key} goes by an equation, and names none")
        if series.equation:
            known.one_of("equation", series.equation, EQUATIONS)
    for printed in experiment.printed:
        if printed.series not in experiment.series or (printed.z is not None and printed.z not in z):
            raise ValueError(f"a printed point is of series {printed.series}, z = {printed.z}: there is none")
    for claim in experiment.claims:
        claim.check(experiment.series, experiment.x.values, z)
    for reduction in (experiment.smoke, experiment.mysql):
        for name in (*reduction.series, *reduction.over) if reduction else ():
            if name not in experiment.series:
                raise ValueError(f"a reduction names series {name}, and there are {', '.join(experiment.series)}")
