"""Proves a run: every message of Kafka is in the warehouse once, and says what Kafka and the database say.

Nothing here goes through the job's own code paths: Kafka is read with kafka-python, the tables with deltalake and
pyarrow, the master with pymysql, and the messages are decoded with the standard library's json and decimal.

    verdict = reconcile(plan)          # after the job has caught up
    print(verdict); verdict.ok

`broker.py` what lies in Kafka, `tables.py` what lies in the warehouse; the checks: `offsets.py` (each message once),
`masters.py` (surrogate keys and attributes by SQL), `messages.py` (a sample against the raw messages), `totals.py` (the
generator's own counts).
"""

from __future__ import annotations

import time
from contextlib import closing

from pipeline.generate.report import Report
from pipeline.plan import Plan
from pipeline.reconcile import masters, messages, offsets, totals
from pipeline.reconcile.broker import Broker
from pipeline.reconcile.tables import NotReconcilable, WarehouseTable
from pipeline.reconcile.verdict import Check, Verdict

__all__ = ["Check", "NotReconcilable", "Verdict", "reconcile"]


def reconcile(plan: Plan, sent: Report | None = None, seed: int = 0) -> Verdict:
    """Check everything that can be checked from outside; `sent` is the generator's report, if it made the messages.

    The job must have caught up: a message that has not been committed yet counts as lost. `seed` chooses the sample.
    """
    began = time.monotonic()
    settings = plan.settings
    facts, rejects = WarehouseTable(settings, plan.facts), WarehouseTable(settings, plan.rejects)
    found = offsets.collect(facts, rejects)
    with closing(Broker(settings.kafka)) as broker, closing(masters.connect(settings.master)) as database:
        extents = broker.extents(found.first)
        checks = offsets.check(extents, found, broker, facts.uri)
        dimensions = {name: masters.check(facts, contract, database) for name, contract in plan.dimensions.items()}
        checks += [dimension.check for dimension in dimensions.values()]
        checks += messages.check(plan, broker, extents, facts, rejects, seed)
    if sent is not None:
        checks += totals.check(sent, found, dimensions, facts)
    return Verdict(tuple(checks), time.monotonic() - began)
