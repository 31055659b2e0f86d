"""What must hold before the first batch. `run` refuses by it, `explain` tells it: there is no second opinion."""

from __future__ import annotations

import logging

from pipeline import joins
from pipeline.config.references import is_open_secret
from pipeline.config.settings import Settings
from pipeline.driver.topics import ANSWER_WITHIN, Topics
from pipeline.kafka.client import client_of
from pipeline.master.open import open_master
from pipeline.master.port import MasterTable
from pipeline.plan import Plan

log = logging.getLogger("millrace.job")


def check(plan: Plan) -> None:
    """All of it, at the start of a job."""
    if remark := leaving_secrets(plan.settings):
        log.warning(remark)
    check_topics(plan)
    for name, contract in plan.dimensions.items():
        log.info("checking dimension %s: master table %s", name, contract.table)
        with open_master(plan.settings.master, contract) as master:
            for remark in check_dimension(plan, name, master):
                log.warning(remark)


def leaving_secrets(settings: Settings) -> str:
    """What is to be said of secrets that other machines are sent; nothing where none are."""
    found = that_travel(settings)
    if not found or settings.spark.master.startswith("local"):
        return ""
    return (
        f"{', '.join(found)}: these secrets are sent to all workers with the plan. Name a file that each machine has "
        f"(master.password_file, ${{file:…}} in [kafka.client]), or give the machines a role for the store."
    )


def that_travel(settings: Settings) -> list[str]:
    """The settings that are secrets themselves, and go to the workers with the plan."""
    found = ["master.password"] if settings.master.password and not settings.master.password_file else []
    kafka, store = settings.kafka, settings.warehouse.storage_options
    tables = {"kafka.client": kafka.client, "kafka.client_java": kafka.client_java, "warehouse.storage_options": store}
    tables["kafka.client_librdkafka"] = kafka.client_librdkafka
    return found + [
        f"{table}.{n}" for table, of in tables.items() for n, value in of.items() if is_open_secret(n, value)
    ]


def check_topics(plan: Plan, within: float = ANSWER_WITHIN) -> None:
    """Refuse topics that are not there or may not be read, a broker that does not answer in so many seconds, and
    settings that the reader cannot follow."""
    kafka = plan.settings.kafka
    if kafka.reader == "direct":
        client_of(kafka.bootstrap, kafka.java)
    topics = Topics(kafka, within)
    topics.check()
    topics.require_readable()


def check_dimension(plan: Plan, name: str, master: MasterTable) -> list[str]:
    """Refuse what would fail in the first batch: a table that is not as its contract, a budget too small.

    Returns what is allowed but worth knowing.
    """
    recipe = joins.recipe(plan.join(name))
    remarks = master.verify(needs_unique_index=not recipe.reads(unique=False, indexed=master.indexed))
    plan.check_join(name, master)
    return remarks
