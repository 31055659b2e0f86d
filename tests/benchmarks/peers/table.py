"""The runs of a peer as one row: medians over its turns, and the rates as a ratio to the loop's."""

from __future__ import annotations

import statistics
from typing import Any

from tests.benchmarks.peers.accounting import KINDS

Run = dict[str, Any]
LOOP = "loop"


def medians(runs: list[Run]) -> list[Run]:
    """One entry a peer and number of dimensions, in the order of the runs."""
    cases = dict.fromkeys((run["peer"], run["dimensions"]) for run in runs)
    found = []
    for peer, dimensions in cases:
        turns = [run for run in runs if (run["peer"], run["dimensions"]) == (peer, dimensions)]
        found.append({"peer": peer, "dimensions": dimensions, "turns": len(turns), **median(turns)})
    loops = {row["dimensions"]: row for row in found if row["peer"] == LOOP}
    for row in found:
        if beside := loops.get(row["dimensions"]):
            row["rate to the loop's"] = round(row["sales a second"] / beside["sales a second"], 2)
            row["cpu to the loop's"] = round(row["cpu us a sale"]["all"] / beside["cpu us a sale"]["all"], 2)
    return found


def median(turns: list[Run]) -> Run:
    """Of each figure by itself."""
    single = ("sales a second", "cores others used")
    several = ("cpu us a sale", "asked a sale", "peak megabytes")
    return {
        **{name: statistics.median(turn[name] for turn in turns) for name in single},
        "lowest and highest rate": [f(turn["sales a second"] for turn in turns) for f in (min, max)],
        **{
            name: {part: statistics.median(turn[name].get(part, 0) for turn in turns) for part in turns[0][name]}
            for name in several
        },
    }


HEAD = ("peer", "dims", "sales/s", "x loop", "cpu us", *KINDS, "keys", "queries", "rows", "peak MB", "others")


def text(rows: list[Run]) -> str:
    """For people: rates, microseconds of processor a sale, what a sale asks of the database."""
    lines = [HEAD, *map(cells, rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD))]
    return "\n".join("  ".join(map(str.rjust, line, widths)) for line in lines)


def cells(row: Run) -> tuple[str, ...]:
    cpu, asked = row["cpu us a sale"], row["asked a sale"]
    return (
        row["peer"], str(row["dimensions"]), f"{row['sales a second']:,.0f}", str(row.get("rate to the loop's", "")),
        *(f"{cpu[kind]:.1f}" for kind in ("all", *KINDS)),
        *(f"{asked[name]:.3g}" for name in ("keys", "queries", "rows")),
        str(row["peak megabytes"]["all"]), f"{row['cores others used']:.1f}",
    )  # fmt: skip
