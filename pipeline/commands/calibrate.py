"""`millrace calibrate`: what the user's own database costs."""

from __future__ import annotations

import sys

from pipeline.commands.options import Config, Set, chosen


def command(config: Config = None, set_: Set = None) -> None:
    """Measure on your database what each read and each step costs; `explain` and `auto` go by that afterwards."""
    from pipeline.advise import calibrate
    from pipeline.joins.cost import costs_file
    from pipeline.master.open import open_master
    from pipeline.plan import resolve

    plan = resolve(chosen(config, set_))
    measured = {}
    for name, contract in plan.dimensions.items():
        print(f"{name}:", file=sys.stderr)
        with open_master(plan.settings.master, contract) as master:
            connections = plan.settings.master.connections
            memory = plan.settings.dimensions[name].memory
            measured[name] = calibrate.calibrate(
                master, connections, lambda line: print(f"  {line}", file=sys.stderr), memory
            )
    where = plan.settings.master
    costs_file.save(
        where.costs, measured, f"Measured by millrace calibrate on {where.host}:{where.port}/{where.database}."
    )
    print(where.costs)
