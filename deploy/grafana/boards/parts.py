"""Panels, variables and dashboards in Millrace's house style: every panel has a unit and a line of help."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.builders import prometheus, stat, timeseries
from grafana_foundation_sdk.builders.dashboard import Dashboard, Row
from grafana_foundation_sdk.models import common
from grafana_foundation_sdk.models import dashboard as models

DATA_SOURCE = models.DataSourceRef(type_val="prometheus", uid="${datasource}")
GREEN, YELLOW, RED = "green", "#EAB839", "red"
Steps = Sequence[tuple[float | None, str]]  # from this value on, this colour; None: from below all

# What a variable offers, by name: label, and where its values come from.
_VARIABLES = {
    "instance": ("Job", "label_values(millrace_build_info, instance)"),
    "topic": ("Topic", 'label_values(millrace_backlog_messages{instance=~"$instance"}, topic)'),
    "dimension": ("Dimension", 'label_values(millrace_join_seconds_total{instance=~"$instance"}, dimension)'),
    "algorithm": ("Algorithm", 'label_values(millrace_join_seconds_total{instance=~"$instance"}, algorithm)'),
}


def dashboard(uid: str, title: str, help_: str, variables: Sequence[str], rows: Mapping[str, Sequence]) -> Dashboard:
    """A dashboard of titled rows of panels."""
    board = (
        Dashboard(title)
        .uid(uid)
        .description(help_)
        .tags(["millrace"])
        .time("now-30m", "now")
        .refresh("5s")
        .timezone("browser")
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
        .readonly()
        .link(
            builders.DashboardLink("Millrace").type("dashboards").tags(["millrace"]).as_dropdown(True).keep_time(True)
        )
        .with_variable(builders.DatasourceVariable("datasource").label("Data source").type("prometheus"))
    )
    for name in variables:
        board.with_variable(_variable(name))
    numbers = itertools.count(1)
    for row, panels in rows.items():
        board.with_row(Row(row).id(next(numbers)))
        for panel in panels:
            board.with_panel(panel.id(next(numbers)))
    return board


def number(title: str, help_: str, unit: str, query: str, steps: Steps = (), decimals: int | None = None) -> stat.Panel:
    """One large figure, coloured by its thresholds, over its own small curve."""
    panel = (
        stat.Panel()
        .title(title)
        .description(help_)
        .datasource(DATA_SOURCE)
        .unit(unit)
        .height(4)
        .span(4)
        .graph_mode(common.BigValueGraphMode.AREA)
        .color_mode(common.BigValueColorMode.VALUE)
        .reduce_options(common_builders.ReduceDataOptions().calcs(["lastNotNull"]))
        .thresholds(_thresholds(steps))
        .with_target(_target(query, title, "A"))
    )
    return panel if decimals is None else panel.decimals(decimals)


def curves(
    title: str,
    help_: str,
    unit: str,
    queries: Mapping[str, str],  # PromQL by legend
    steps: Steps = (),
    stacked: bool = False,
    width: int = 12,
    least: float | None = 0,
) -> timeseries.Panel:
    """Curves over time; thresholds are drawn as lines."""
    panel = (
        timeseries.Panel()
        .title(title)
        .description(help_)
        .datasource(DATA_SOURCE)
        .unit(unit)
        .height(8)
        .span(width)
        .line_width(2)
        .fill_opacity(40 if stacked else 8)
        .show_points(common.VisibilityMode.NEVER)
        .span_nulls(False)
        .legend(common_builders.VizLegendOptions().display_mode(common.LegendDisplayMode.LIST).show_legend(True))
        .tooltip(common_builders.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI))
        .thresholds(_thresholds(steps))
    )
    if least is not None:
        panel.min(least)
    if stacked:
        panel.stacking(common_builders.StackingConfig().mode(common.StackingMode.NORMAL))
    if steps:
        panel.thresholds_style(
            common_builders.GraphThresholdsStyleConfig().mode(common.GraphThresholdsStyleMode.DASHED)
        )
    for number_, (legend, query) in enumerate(queries.items()):
        panel.with_target(_target(query, legend, chr(ord("A") + number_)))
    return panel


def quantiles(histogram: str, labels: str, by: Sequence[str] = (), legend: str = "") -> dict[str, str]:
    """Median and tail of a histogram, as queries by legend."""
    kept = ", ".join([*by, "le"])
    buckets = f"sum by ({kept}) (rate({histogram}_bucket{{{labels}}}[$__rate_interval]))"
    shares = {"p50": 0.5, "p99": 0.99}
    return {f"{name} {legend}".strip(): f"histogram_quantile({q:g}, {buckets})" for name, q in shares.items()}


def per_second(counter: str, labels: str, by: Sequence[str] = ()) -> str:
    """The growth a second of a counter."""
    return f"sum by ({', '.join(by)}) (rate({counter}{{{labels}}}[$__rate_interval]))"


def _target(query: str, legend: str, ref: str) -> prometheus.Dataquery:
    return prometheus.Dataquery().expr(query).legend_format(legend).ref_id(ref).datasource(DATA_SOURCE).range()


def _thresholds(steps: Steps) -> builders.ThresholdsConfig:
    marks = [models.Threshold(value=value, color=color) for value, color in steps]
    if not marks or marks[0].value is not None:
        marks.insert(0, models.Threshold(value=None, color=GREEN))
    return builders.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(marks)


def _variable(name: str) -> builders.QueryVariable:
    label, values = _VARIABLES[name]
    return (
        builders.QueryVariable(name)
        .label(label)
        .query(values)
        .datasource(DATA_SOURCE)
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(models.VariableSort.ALPHABETICAL_ASC)
        .multi(True)
        .include_all(True)
        .all_value(".*")
        .current(models.VariableOption(selected=True, text=["All"], value=["$__all"]))
    )
