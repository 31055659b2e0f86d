"""The picture of a run: rates and processor time of all peers, a panel for each number of dimensions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.benchmarks.peers.accounting import KINDS

_COLOURS = ("#bab0ac", "#f58518", "#4c78a8", "#b279a2", "#54a24b")


def draw(told: dict[str, Any], path: Path) -> None:
    """Bars are medians, dots the turns."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    numbers = sorted({row["dimensions"] for row in told["medians"]})
    figure, axes = pyplot.subplots(len(numbers), 2, figsize=(10, 1 + 2 * len(numbers)), squeeze=False)
    for (rate, cpu), number in zip(axes, numbers, strict=True):
        rows = [row for row in told["medians"] if row["dimensions"] == number]
        names = [row["peer"] for row in rows]
        rate.barh(names, [row["sales a second"] / 1_000 for row in rows], color="#4c78a8", alpha=0.6)
        for run in (run for run in told["runs"] if run["dimensions"] == number):
            rate.plot(run["sales a second"] / 1_000, names.index(run["peer"]), "o", color="black", markersize=4)
        left = [0.0] * len(rows)
        for kind, colour in zip(KINDS, _COLOURS, strict=True):
            widths = [row["cpu us a sale"][kind] for row in rows]
            cpu.barh(names, widths, left=left, color=colour, label=kind)
            left = [a + b for a, b in zip(left, widths, strict=True)]
        rate.set_xlabel(f"thousand sales a second, {number} dimension{'s' * (number > 1)}")
        cpu.set_xlabel("µs of processor a sale")
        for panel in (rate, cpu):
            panel.invert_yaxis()
    figure.legend(*axes[0][1].get_legend_handles_labels(), loc="lower center", ncols=len(KINDS), fontsize=8)
    host = told["host"]
    figure.suptitle(f"{told['database']}; {host['cpu']}, {host['cores']} cores, all on one machine", fontsize=9)
    figure.tight_layout(rect=(0, 0.08, 1, 1))
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
