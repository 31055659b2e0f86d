"""A small plot for each figure: our points with their intervals, our prediction, the numbers that the paper prints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipeline.bench.definition.experiment import Experiment
from pipeline.bench.page.lines import Line, Lines
from pipeline.bench.page.told import Told
from pipeline.errors import BadSetting

_SIZE = (5.2, 3.6)  # inches of one panel
_MARKS = "os^vDPX<>ph8*"
# The same input gives the same bytes: a plot changes only when its results do.
_STYLE: Any = {"svg.hashsalt": "millrace", "svg.fonttype": "none", "font.size": 8, "axes.grid": True, "grid.alpha": 0.3}


def plot(told: Told, file: Path) -> None:
    """A panel for each target."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        raise BadSetting(
            "Plots need matplotlib, which Millrace does not bring along: pip install 'millrace[bench]', or compare "
            "with --no-plots."
        ) from None
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(_SIZE[0] * len(told.results), _SIZE[1]), layout="constrained")
        panels = figure.subplots(1, len(told.results), squeeze=False)[0]
        for panel, target in zip(panels, told.results, strict=True):
            _draw(panel, told.sources[target], told.predicted[target])
            panel.set_title(f"{told.experiment.name}, {target}")
        file.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(file, metadata={"Date": None})


def _draw(panel: Any, measured: Lines, predicted: Lines) -> None:
    experiment = measured.experiment
    for number, key in enumerate(measured.of):
        colour, mark = f"C{number % 10}", _MARKS[number % len(_MARKS)]
        label = _label(experiment, *key)
        if experiment.series[key[0]].by == "operator":
            if experiment.y.of == "curve":
                mark = ""
            _points(panel, measured.of[key], label, colour, mark)
            _line(panel, predicted.of.get(key, {}), colour, "--", None)
        else:
            _line(panel, measured.of[key], colour, ":", label)
        printed = [each for each in experiment.printed if (each.series, each.z) == key]
        panel.plot([each.x for each in printed], [each.y for each in printed], "x", color=colour, ms=8, mew=2, zorder=5)
    panel.set_xlabel(experiment.x.name)
    panel.set_ylabel(experiment.y.name)
    if experiment.x.log:
        panel.set_xscale("log")
    if experiment.y.log:
        panel.set_yscale("log")
    elif experiment.y.from_zero:
        panel.set_ylim(bottom=0)
    if panel.get_legend_handles_labels()[0]:
        panel.legend(fontsize=6)


def _points(panel: Any, line: Line, label: str, colour: str, mark: str) -> None:
    x = sorted(line)
    bars = [line[at][1] or 0.0 for at in x]
    panel.errorbar(
        x, [line[at][0] for at in x], yerr=bars, label=label, color=colour, marker=mark, ms=3.5, lw=1, capsize=2
    )


def _line(panel: Any, line: Line, colour: str, style: str, label: str | None) -> None:
    x = sorted(line)
    panel.plot(x, [line[at][0] for at in x], style, color=colour, lw=1, label=label)


def _label(experiment: Experiment, series: str, z: float | None) -> str:
    label = experiment.series[series].label
    return f"{label}, {experiment.z.say(z)}" if experiment.z and z is not None else label
