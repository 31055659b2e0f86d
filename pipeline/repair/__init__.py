"""Facts that heal: those of the unknown member whose master row has come since get it.

    for line in repair(plan, Wishes()): print(line)

`unknown.py` finds them in the table, in windows of fixed size. `window.py` gives them to the dimensions' joins, which
ask the master within the same memory and at the same pace as a worker. `warehouse/healing.py` commits what was found.
`healer.py` does the same beside a running job, for the keys that its feed tells of. `inferred.py` gives the master
placeholder rows before a repair, if it is asked to.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone

from pipeline.plan import Plan
from pipeline.repair.inferred import infer
from pipeline.repair.steps import commit, opened
from pipeline.repair.unknown import UnknownFacts, dimensions_of, require_columns
from pipeline.repair.window import Tally, Window
from pipeline.repair.wishes import Wishes
from pipeline.warehouse import healing, storage
from pipeline.warehouse.log import TableLog

__all__ = ["Wishes", "repair"]


def repair(plan: Plan, wishes: Wishes) -> Iterator[str]:
    """Heal what can be healed, or with `dry_run` only find it. A line for each dimension tells what came of it."""
    warehouse, facts = plan.settings.warehouse, plan.facts
    contracts = dimensions_of(facts, plan.dimensions, wishes.dimensions)
    require_columns(facts, contracts, by_age=wishes.age_limit is not None or wishes.infer)
    uri = storage.table_uri(warehouse, facts.name)
    if not TableLog.exists(uri, warehouse.storage_options):
        yield f"{facts.name}: there is no such table yet, nothing to heal"
        return
    log = TableLog(uri, warehouse.storage_options)
    healing.refuse_what_is_not_safe(log, facts, warehouse, wishes.job_is_stopped or wishes.dry_run)
    since = datetime.now(timezone.utc) - timedelta(seconds=wishes.age_limit) if wishes.age_limit is not None else None
    if wishes.infer:
        yield from infer(plan, log, contracts, since, wishes.dry_run)
    unknown = UnknownFacts(log, facts, contracts, since)
    with opened(plan, contracts) as dimensions:
        tallies = [Tally(dimension.contract.name, wishes.dry_run) for dimension in dimensions]
        left = wishes.limit
        for facts_at_hand in unknown.windows(plan.settings.worker.window_sales):
            window = Window(facts_at_hand, dimensions, plan.settings.worker)
            healed = window.known(left)
            if len(healed) and not wishes.dry_run:
                commit(log, plan, healed, [tally.name for tally in tallies])
            for tally in tallies:
                tally.add(*window.outcome(tally.name, len(healed)))
            left = left if left is None else left - len(healed)
            if left == 0:
                break
    yield from map(str, tallies)
    if left == 0:
        yield f"stopped after {wishes.limit:,} facts (--limit); run it again for the others"
