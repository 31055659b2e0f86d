"""The stream: whether checkpoint, tables and topics fit together, as a start compares them.

A job may be running meanwhile. Then the numbers move between two looks, and what does not fit is looked at again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from pipeline.doctor import kafka
from pipeline.doctor.findings import Check, Finding, Patient, not_checked, ok
from pipeline.driver import continuity
from pipeline.driver.origin import Origin, of_note
from pipeline.driver.progress import Progress, SeenProgress
from pipeline.driver.topics import Topics
from pipeline.errors import TopicChanged, WarehouseRefused
from pipeline.warehouse import places
from pipeline.warehouse.seen import SeenTables

_LOOKS = 3
TOGETHER = "checkpoint and tables"


def checks(patient: Patient) -> list[Check]:
    written = (f"table {patient.plan.facts.name}", f"table {patient.plan.rejects.name}")
    return [
        Check(TOGETHER, together, written),
        Check("offsets", offsets, (TOGETHER, kafka.TOPICS)),
    ]


def together(patient: Patient) -> Iterator[Finding]:
    """The batches of the tables (each commit notes its own) against those of the checkpoint."""
    progress, tables = _progress(patient), _tables(patient)
    origin = settled(progress, lambda: continuity.require(progress, patient.settings, tables))
    name = patient.settings.job.name
    if origin is None:
        yield not_checked(f"a job writes to {progress.path} at this moment", "Look again when it has stopped.")
    elif progress.planned is None:
        yield ok(f"the first start of {name}: neither {progress.path} nor the tables have a batch of it")
    else:
        yield ok(f"{name}: the facts have batch {tables.last_batch()}, {progress.path} has finished {progress.done}")


def offsets(patient: Patient) -> Iterator[Finding]:
    """Whether Kafka still has what comes next, of the topics that were read."""
    progress, tables = _progress(patient), _tables(patient)
    topics = Topics(patient.settings.kafka, patient.within)

    def ask() -> Origin:
        origin = of_note(tables.last_note())
        continuity.require_topics(progress, tables, topics, origin)
        return origin

    if settled(progress, ask) is None:
        yield not_checked(f"a job writes to {progress.path} at this moment", "Look again when it has stopped.")
        return
    following = continuity.next_offsets(progress, tables.last_batch())
    if not following:
        yield ok(f"the first batch begins where kafka.starting_offsets says: {patient.settings.kafka.starting_offsets}")
    else:
        waiting = sum(topics.backlog(following).values())
        yield ok(f"Kafka has all that comes next; {waiting:,} offsets wait to be read")


def settled(progress: Progress, ask: Callable[[], Origin]) -> Origin | None:
    """The answer, or its refusal where nothing moved meanwhile; None if a job moves on with every look."""
    for _ in range(_LOOKS):
        before = progress.done, progress.planned
        try:
            return ask()
        except (WarehouseRefused, TopicChanged):
            if (progress.done, progress.planned) == before:
                raise
    return None


def _progress(patient: Patient) -> Progress:
    place = places.checkpoint(patient.settings)
    with places.told(place):
        return SeenProgress(replace(place, options=places.soon(place.options)))


def _tables(patient: Patient) -> SeenTables:
    plan, warehouse = patient.plan, patient.settings.warehouse
    seen = replace(warehouse, storage_options=places.soon(warehouse.storage_options))
    return SeenTables(seen, plan.facts, [plan.rejects], patient.settings.job.name)
