"""`millrace calibrate`: what the user's own database costs."""

from __future__ import annotations

import sys
from dataclasses import replace

from pipeline.commands.options import Config, Set, chosen


def command(config: Config = None, set_: Set = None) -> None:
    """Measure on your database what each read and each step costs; `explain` and `auto` go by that afterwards."""
    from pipeline.advise import calibrate
    from pipeline.advise.demand import Demand
    from pipeline.errors import BadSetting
    from pipeline.joins.cost import costs_file
    from pipeline.master.open import open_master
    from pipeline.plan import resolve

    plan = resolve(chosen(config, set_))
    master = plan.settings.master
    if master.queries_per_second or master.rows_per_second:
        raise BadSetting(
            f"master.queries_per_second = {master.queries_per_second:g}, rows_per_second = {master.rows_per_second}: "
            "calibrate would measure the waits for these caps. Where the database bears it for a minute, add "
            "--set master.queries_per_second=0 --set master.rows_per_second=0."
        )
    plan = replace(plan, workers=Demand.of(plan, 1.0).workers)
    measured = {}
    for name, contract in plan.dimensions.items():
        print(f"{name}:", file=sys.stderr)
        with open_master(master, contract) as table:
            connections = plan.options(name).connections
            memory = plan.settings.dimensions[name].memory
            measured[name] = calibrate.calibrate(
                table, connections, lambda line: print(f"  {line}", file=sys.stderr), memory
            )
    costs_file.save(
        master.costs, measured, f"Measured by millrace calibrate on {master.host}:{master.port}/{master.database}."
    )
    print(master.costs)
