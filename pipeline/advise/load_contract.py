"""What the load contract with the database means for the job: which freshness it costs, or that it cannot be kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from pipeline.advise.demand import Demand
from pipeline.advise.forecast import Table, beside, chosen_rates
from pipeline.master.share import Contract
from pipeline.plan import Plan


@dataclass(frozen=True)
class Outcome:
    """Of the job with the joins that the settings name, at the rate or at what it can do."""

    most: float  # sales a second
    queue_wait: float | None  # None: it grows
    statements: float  # a second
    rows: float  # a second

    @classmethod
    def of(cls, tables: dict[str, Table], demand: Demand) -> Outcome:
        rates = chosen_rates(tables)
        seconds = demand.seconds(rates.values())
        most, statements, rows = demand.capacity(seconds), 0.0, 0.0
        for name, table in tables.items():
            join = table.chosen(beside(name, rates, demand))
            if join is not None:
                busy = min(demand.rate, most) / join.mu
                statements, rows = statements + join.queries * busy, rows + join.rows * busy
        return cls(most, demand.queue_wait(seconds), statements, rows)


def told(plan: Plan, tables: dict[str, Table], demand: Demand) -> Iterator[str]:
    """With the caps and without; nothing if there are none."""
    master = plan.settings.master
    if not (Contract.of(master).caps_something and tables):
        return
    caps = {"queries_per_second": master.queries_per_second, "rows_per_second": master.rows_per_second}
    caps["connections"] = master.connections
    named = ", ".join(f"{name} = {cap:g}" for name, cap in caps.items() if cap)
    yield f"What the load contract means for the whole job (master: {named}):"
    free, slots = _without(plan, demand)
    if slots.workers > demand.workers:
        yield (
            f"  {demand.workers} of {slots.workers} tasks run at once, for more there would be no connection, "
            "statement or rows"
        )
    if not demand.counted:
        yield "  the workers of a cluster share it: the figures are those of one worker that has all of it"
    held = Outcome.of(tables, demand)
    wished = Outcome.of({name: replace(table, plan=free, demand=slots) for name, table in tables.items()}, slots)
    yield f"  without it: {_asked(wished)}; {_wait(wished, demand)}"
    yield f"  with it:    {_asked(held)}; {_wait(held, demand)}"
    if held.queue_wait is None and wished.queue_wait is not None:
        yield (
            f"  So it cannot carry {demand.rate:,.0f} sales a second: more memory for the dimension that asks most, a "
            "longer max_staleness, or higher caps"
        )
    yield ""


def _without(plan: Plan, demand: Demand) -> tuple[Plan, Demand]:
    master = replace(plan.settings.master, queries_per_second=0.0, rows_per_second=0, connections=0)
    free = replace(plan, settings=replace(plan.settings, master=master))
    slots = Demand.of(free, demand.rate, demand.way)
    return replace(free, workers=slots.workers), slots


def _asked(job: Outcome) -> str:
    return f"{job.statements:,.1f} statements and {job.rows:,.0f} rows a second"


def _wait(job: Outcome, demand: Demand) -> str:
    if job.queue_wait is None:
        return f"at most about {float(f'{job.most:.3g}'):,.0f} sales a second: the backlog would grow"
    return f"at {demand.rate:,.0f} sales a second a sale waits about {job.queue_wait:.1f} s until the join admits it"
