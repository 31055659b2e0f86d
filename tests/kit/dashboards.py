"""The dashboards as a browser would ask them, drawn without one: panels out of the JSON, curves out of Prometheus."""

from __future__ import annotations

import io
import json
import math
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.dates import DateFormatter
from matplotlib.ticker import FuncFormatter
from PIL import Image

from pipeline.config.measures import rounded
from pipeline.watch.figures import duration

Curve = tuple[str, list[float], list[float]]  # legend, Unix times, values
Ask = Callable[[str], list[dict]]  # a range query's result

_COLORS = ("#56A64B", "#3274D9", "#FF780A", "#A352CC", "#E02F44", "#F2CC0C", "#8AB8FF", "#B877D9", "#96D98D", "#7A7A7A")
CAPTION = "Drawn by matplotlib from this dashboard's queries and a test run; not a screenshot of Grafana"
_BACKGROUND, _PANEL, _TEXT = "#111217", "#181b1f", "#ccccdc"
_ROW_INCHES, _WIDTH_INCHES, _DOTS = 0.4, 15, 72
_SHADES, _LETTER_INCHES = 96, 0.05
_MOST_NAMED = 18  # curves in a legend
_LEGEND_ROWS = 0.32  # rows of the grid that one line of a legend takes


@dataclass(frozen=True)
class Panel:
    """One panel as the dashboard's JSON describes it."""

    title: str
    help: str
    kind: str  # stat | timeseries | row
    unit: str
    stacked: bool
    queries: tuple[tuple[str, str], ...]  # legend, PromQL
    steps: tuple[tuple[float, str], ...]  # thresholds
    place: tuple[int, int, int, int]  # x, y, width, height on the grid


@dataclass(frozen=True)
class Board:
    title: str
    variables: tuple[str, ...]
    panels: tuple[Panel, ...]


def read(file: Path) -> Board:
    board = json.loads(file.read_text())
    names = tuple(variable["name"] for variable in board["templating"]["list"])
    return Board(board["title"], names, tuple(_panel(panel) for panel in board["panels"]))


def _panel(panel: Mapping) -> Panel:
    defaults = panel.get("fieldConfig", {}).get("defaults", {})
    steps = defaults.get("thresholds", {}).get("steps", [])
    place = panel["gridPos"]
    return Panel(
        title=panel["title"],
        help=panel.get("description", ""),
        kind=panel["type"],
        unit=defaults.get("unit", ""),
        stacked=defaults.get("custom", {}).get("stacking", {}).get("mode") == "normal",
        queries=tuple((target["legendFormat"], target["expr"]) for target in panel.get("targets", ())),
        steps=tuple((step["value"], step["color"]) for step in steps if step.get("value") is not None),
        place=(place.get("x", 0), place.get("y", 0), place["w"], place["h"]),
    )


def resolved(query: str, interval: str, chosen: Mapping[str, str] | None = None) -> str:
    """A query with its variables filled in, as Grafana does before it asks; all of each if not chosen."""
    query = query.replace("$__rate_interval", interval)
    return re.sub(r"\$(\w+)", lambda variable: (chosen or {}).get(variable[1], ".*"), query)


def curves(panel: Panel, ask: Ask, interval: str) -> Iterator[Curve]:
    """What a panel shows; points that are not numbers are left out, and so are curves without any."""
    for legend, query in panel.queries:
        for series in ask(resolved(query, interval)):
            points = [(at, float(value)) for at, value in series["values"] if math.isfinite(float(value))]
            if points:
                times, values = zip(*points, strict=True)
                yield _named(legend, series["metric"]), list(times), list(values)


def _named(legend: str, labels: Mapping[str, str]) -> str:
    return re.sub(r"{{(\w+)}}", lambda name: labels.get(name[1], ""), legend)


def draw(board: Board, ask: Ask, interval: str, span: tuple[float, float], file: Path) -> None:
    """All panels of a dashboard in their places, as one picture of a time from one Unix time to another."""
    bottom = max(y + height for _, y, _, height in (panel.place for panel in board.panels))
    figure = pyplot.figure(figsize=(_WIDTH_INCHES, (bottom + 1) * _ROW_INCHES), facecolor=_BACKGROUND)
    row = 1 / (bottom + 1)  # of the grid, as a share of the figure
    figure.text(0.01, 1 - 0.6 * row, board.title, color=_TEXT, size=15, va="center")
    figure.text(0.99, 1 - 0.6 * row, CAPTION, color=_TEXT, size=9, va="center", ha="right")
    for panel in board.panels:
        x, y, width, height = panel.place
        top = (bottom - y) * row
        if panel.kind == "row":
            figure.text(0.01, top - 0.5 * row, f"▾ {panel.title}", color=_TEXT, size=11, va="center")
            continue
        shown = list(curves(panel, ask, interval))
        below = 1.2 + _LEGEND_ROWS * math.ceil(min(len(shown), _MOST_NAMED) / _columns(panel, [c[0] for c in shown]))
        below = 0.3 if panel.kind == "stat" else below
        inside = (x / 24 + 0.035, top - (height - below) * row, width / 24 - 0.045, (height - below - 0.8) * row)
        axes = figure.add_axes(inside, facecolor=_PANEL)
        axes.set_title(panel.title, color=_TEXT, size=10, loc="left", pad=4)
        if not shown:
            axes.text(0.5, 0.5, "No data", color=_TEXT, transform=axes.transAxes, ha="center", va="center")
            axes.set_axis_off()
            continue
        (_number if panel.kind == "stat" else _time_series)(axes, panel, shown)
        axes.set_xlim(*map(_days, span))
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=_DOTS, facecolor=_BACKGROUND)
    pyplot.close(figure)
    Image.open(drawn).convert("RGB").quantize(_SHADES).save(file, optimize=True)  # a third of the size


def _number(axes: Axes, panel: Panel, shown: list[Curve]) -> None:
    _, times, values = shown[0]
    reached = [color for least, color in panel.steps if values[-1] >= least]
    color = reached[-1] if reached else _COLORS[0]
    axes.fill_between([_days(at) for at in times], values, color=color, alpha=0.25, linewidth=0)
    figure = with_unit(values[-1], panel.unit)
    axes.text(0.5, 0.5, figure, color=color, size=20, transform=axes.transAxes, ha="center", va="center")
    axes.set_axis_off()


def _time_series(axes: Axes, panel: Panel, shown: list[Curve]) -> None:
    if panel.stacked:
        times = sorted({at for _, times, _ in shown for at in times})
        known = [dict(zip(at, values, strict=True)) for _, at, values in shown]
        heights = [[curve.get(at, 0.0) for at in times] for curve in known]
        legends = [legend for legend, _, _ in shown]
        axes.stackplot([_days(at) for at in times], heights, labels=legends, colors=_COLORS, alpha=0.7)
        highest = max(map(sum, zip(*heights, strict=True)))
    else:
        for number, (legend, times, values) in enumerate(shown):
            color = _COLORS[number % len(_COLORS)]
            axes.plot([_days(at) for at in times], values, label=legend, color=color, linewidth=1.3)
        highest = max(max(values) for _, _, values in shown)
    for least, color in panel.steps:
        if least <= 1.5 * highest:  # a line far above the data would press it to the floor
            axes.axhline(least, color=color, linewidth=0.8, linestyle="--")
    axes.set_ylim(bottom=0, top=None if highest else 1)
    _dress(axes, panel)


def _dress(axes: Axes, panel: Panel) -> None:
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: with_unit(value, panel.unit)))
    axes.yaxis.set_major_locator(pyplot.MaxNLocator(5))
    axes.xaxis.set_major_formatter(DateFormatter("%H:%M:%S"))
    axes.xaxis.set_major_locator(pyplot.MaxNLocator(4))
    axes.tick_params(colors=_TEXT, labelsize=7)
    axes.grid(color="#2c3235", linewidth=0.5)
    for spine in axes.spines.values():
        spine.set_visible(False)
    handles, labels = axes.get_legend_handles_labels()
    axes.legend(
        handles[:_MOST_NAMED],
        [textwrap.shorten(label, 60, placeholder="…") for label in labels[:_MOST_NAMED]],
        fontsize=6,
        ncol=_columns(panel, labels),
        loc="upper left",
        bbox_to_anchor=(-0.02, -0.08),
        frameon=False,
        labelcolor=_TEXT,
    )


def _columns(panel: Panel, legends: list[str]) -> int:
    """As many of its legend as there is room for the longest."""
    inches = panel.place[2] / 24 * _WIDTH_INCHES
    return max(1, int(inches / (0.5 + _LETTER_INCHES * max(map(len, legends), default=1))))


def _days(at: float) -> float:
    return at / 86_400  # matplotlib counts days since 1970


def with_unit(value: float, unit: str) -> str:
    """
    >>> with_unit(0.034, "percentunit"), with_unit(12_345, "short"), with_unit(1.5, "s"), with_unit(1200, "ops")
    ('3.4 %', '12.3 k', '1.5 s', '1.2 k/s')
    """
    if unit == "s":
        return duration(value) if value else "0 s"
    if unit == "percentunit":
        return f"{100 * value:.3g} %"
    if unit == "bytes":
        return rounded(value)
    digits = f"{value / 1000:,.3g} k" if value >= 1000 else f"{value:.3g}"
    return digits + ("/s" if unit in ("ops", "reqps", "rowsps") else "")
