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
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pyarrow as pa
import pymysql
from deltalake.exceptions import DeltaError
from kafka.errors import KafkaError

from pipeline.generate.sent import Sent
from pipeline.plan import Plan
from pipeline.reconcile import masters, messages, offsets, totals
from pipeline.reconcile.broker import Broker
from pipeline.reconcile.tables import NotReconcilable, WarehouseTable
from pipeline.reconcile.verdict import Check, Verdict

__all__ = ["Check", "NotReconcilable", "Verdict", "reconcile"]


def reconcile(plan: Plan, sent: Sent | None = None, seed: int = 0) -> Verdict:
    """Check everything that can be checked from outside; `sent` is the generator's report, if it made the messages.

    The job must have caught up: a message that has not been committed yet counts as lost. `seed` chooses the sample.
    """
    began = time.monotonic()
    with _told_in_a_sentence(plan):
        checks = _checks(plan, sent, seed)
    return Verdict(tuple(checks), time.monotonic() - began)


def _checks(plan: Plan, sent: Sent | None, seed: int) -> list[Check]:
    settings = plan.settings
    facts, rejects = WarehouseTable(settings, plan.facts), WarehouseTable(settings, plan.rejects)
    asked = [source for contract in plan.dimensions.values() for source in masters.asked_by(contract)]
    facts.require([*offsets.IDENTITY, *asked])
    rejects.require(offsets.IDENTITY)
    found = offsets.collect(facts, rejects)
    with closing(Broker(settings.kafka)) as broker, closing(masters.connect(settings.master)) as database:
        extents = broker.extents(found.first)
        checks = offsets.check(extents, found, broker, facts.uri)
        dimensions = {name: masters.check(facts, contract, database) for name, contract in plan.dimensions.items()}
        checks += [dimension.check for dimension in dimensions.values()]
        checks += messages.check(plan, broker, extents, facts, rejects, seed)
    if sent is not None:
        checks += totals.check(sent, found, dimensions, facts)
    return checks


@contextmanager
def _told_in_a_sentence(plan: Plan) -> Iterator[None]:
    """What a server or a store refuses in the middle of it, with its own words and where to look."""
    try:
        yield
    except pymysql.MySQLError as error:
        where = f"{plan.settings.master.host}:{plan.settings.master.port}/{plan.settings.master.database}"
        raise NotReconcilable(
            f"the master database {where} refused a query: {error}. The account needs SELECT on the tables that the "
            "dimensions' contracts name."
        ) from error
    except KafkaError as error:
        raise NotReconcilable(f"Kafka at {plan.settings.kafka.bootstrap} did not answer: {error}.") from error
    except (DeltaError, pa.ArrowException, OSError) as error:
        raise NotReconcilable(
            f"the tables below {plan.settings.warehouse.path} cannot be read: {error}. See warehouse.path and "
            "warehouse.storage_options."
        ) from error
