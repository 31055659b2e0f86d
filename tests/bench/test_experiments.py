"""Every experiment of the papers, in small: it runs, its claims can be judged, its figure can be drawn."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.bench.charged.target import Charged
from pipeline.bench.definition.claims import Claim
from pipeline.bench.definition.experiment import Experiment, reduced
from pipeline.bench.definition.files import EXPERIMENTS, load
from pipeline.bench.page.compare import page
from pipeline.bench.page.lines import Lines
from pipeline.bench.page.plots import plot
from pipeline.bench.page.told import told
from pipeline.bench.running.results import Store
from pipeline.bench.running.running import run

FILES = sorted(EXPERIMENTS.glob("*/*.toml"))


def judged(claim: Claim, series: str, beside: str, lines: Lines) -> bool:
    at = lines.zs() if claim.z is None else [claim.z]
    return any(claim.numbers(series, beside, lambda name, z=z: lines.means(name, z)) for z in at)


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_an_experiment_in_small(file: Path, tmp_path: Path) -> None:
    whole = load(file)
    small: Experiment = reduced(whole, whole.smoke)
    run([small], Charged(), Store(tmp_path, "charged"))
    here = told(small, tmp_path)
    assert {point.series: why for point in here.results["charged"].points if (why := refusal(point))} == {}
    lines = here.sources["charged"]
    empty = [(key, z) for key in small.series for z in lines.zs() if not lines.means(key, z)]
    assert empty == []
    cannot = [
        (claim.says, series)
        for claim in small.claims
        if set(claim.names) <= set(small.series)
        for series, beside in claim.pairs
        if not judged(claim, series, beside, lines)
    ]
    assert cannot == []
    drawn = tmp_path / "figure.svg"
    plot(here, drawn)
    assert small.x.name.split(",")[0] in drawn.read_text("utf-8")
    assert small.title in page([here], tmp_path, tmp_path / "page.md")


def refusal(point) -> str:
    return point.repeats[0].measured.refused
