"""What a join is told of its trial: the machine's costs, the law of its sales, how R lies."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pipeline.bench.charged.machines import Machine
from pipeline.bench.workload.laws import Draws, results
from pipeline.generate.zipf import ZipfDraw
from pipeline.joins import Options
from pipeline.joins.algorithm import Clock
from pipeline.joins.cost.accounting import Accounting
from pipeline.joins.cost.question import Stream
from pipeline.master.computed import ComputedRows

ENDLESS = 1 << 40  # sales of a window: the papers' stream has no end
_NEVER = 1e8  # seconds until a cached row is too old: the papers' R does not change


def options(
    machine: Machine,
    rows: ComputedRows,
    law: Draws,
    skew: float,
    absent: float,
    settings: Mapping[str, Any],
    accounting: Accounting,
    clock: Clock,
    pool_bytes: int = 0,
    chained: bool = False,
) -> Options:
    return Options(
        costs=machine.unit_costs(rows.row_bytes, pool_bytes, chained),
        stream=Stream(
            skew,
            ENDLESS,
            absent,
            results=results(rows, law),
            absent_life=math.inf,
            by_integral=isinstance(law, ZipfDraw),
        ),
        order="scattered" if rows.scattered else "by frequency",
        settings=settings,
        max_staleness=_NEVER,
        absent_staleness=_NEVER,
        clock=clock,
        accounting=accounting,
    )
