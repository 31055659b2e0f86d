"""The two ways on that change a checkpoint: `millrace rewind` and `millrace skip`. The job must not be running."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone

from pipeline.config.settings import Settings
from pipeline.driver import continuity, topic_checks
from pipeline.driver.checkpoint import Checkpoint
from pipeline.driver.origin import Gap, Origin, account, of_note
from pipeline.driver.session import open_session
from pipeline.driver.topics import Topics
from pipeline.errors import BadSetting, WarehouseRefused
from pipeline.plan import Plan, resolve
from pipeline.warehouse.port import Batch, Standing, Warehouse
from pipeline.warehouse.warehouse import make_warehouse


@dataclass(frozen=True)
class _Stopped:
    """A stream whose job does not run, with all that says how far it has come."""

    plan: Plan
    checkpoint: Checkpoint
    warehouse: Warehouse
    facts: Standing
    origin: Origin


def rewind(settings: Settings) -> str:
    """Set the checkpoint back to the last batch that the tables have; what lies behind it is read from Kafka again."""
    with _stopped(settings) as stream:
        checkpoint, written = stream.checkpoint, stream.facts.batch
        done, planned = checkpoint.done, checkpoint.planned
        if done == written and planned == done:
            return f"nothing to do: checkpoint {checkpoint.path} and {stream.facts.uri} both end with batch {written}"
        if checkpoint.ends(written) is None:
            raise WarehouseRefused(
                f"the checkpoint {checkpoint.path} no longer knows where batch {written} ended: Spark keeps the last "
                f"hundred. To go on there, {continuity.under_another_name(stream.origin)}."
            )
        aside = checkpoint.rewind(written)
        where = "the beginning" if written is None else f"the end of batch {written}"
        return f"the checkpoint stands at {where}, with {stream.facts.uri}; later batches were moved to {aside}"


def skip(settings: Settings, topics: list[str], reason: str = "") -> list[Gap]:
    """Go on behind messages that Kafka has deleted, as a batch of its own that notes which they were."""
    with _stopped(settings) as stream:
        checkpoint = stream.checkpoint
        done, written = checkpoint.done, stream.facts.batch
        if written != done:
            raise WarehouseRefused(
                f"{stream.facts.uri} has batch {written}, the checkpoint has finished {done}: start the job once, "
                f"which brings them together, or see what it says; then skip."
            )
        following = continuity.next_offsets(checkpoint, written)
        if unknown := sorted(set(topics) - set(following)):
            raise BadSetting(
                f"--topic {', '.join(unknown)}: this stream reads {', '.join(sorted(following)) or 'none'}."
            )
        chosen = {topic: following[topic] for topic in topics}
        by, at = account(), datetime.now(timezone.utc).isoformat(timespec="seconds")
        gone = topic_checks.missing(Topics(settings.kafka), chosen)
        gaps = [Gap(each.topic, each.partition, each.first, each.last, by, at, reason) for each in gone]
        if gaps:
            origin = stream.origin.skipping(gaps, checkpoint.id())
            for gap in gaps:
                following[gap.topic][str(gap.partition)] = gap.last + 1
            batch = 0 if done is None else done + 1
            stream.warehouse.prepare()
            checkpoint.plan(batch, following)
            stream.warehouse.commit(Batch(batch, [], {}, origin.as_note()))
            checkpoint.finish(batch)
        return gaps


@contextmanager
def _stopped(settings: Settings) -> Iterator[_Stopped]:
    plan = resolve(settings)
    spark = open_session(settings)
    try:
        warehouse = make_warehouse(settings.warehouse, plan.facts, [plan.rejects], settings.job.name, spark)
        checkpoint = Checkpoint(spark, settings.job.checkpoint)
        with checkpoint.held():
            if checkpoint.planned is None:
                raise WarehouseRefused(
                    f"the checkpoint {checkpoint.path} has no batch yet: nothing was read that could be gone on from. "
                    f"Where the first batch begins is the setting kafka.starting_offsets."
                )
            facts, *sides = warehouse.standings()
            origin = of_note(warehouse.last_note())
            continuity.require_tables_of(checkpoint, settings, facts, sides, origin)
            yield _Stopped(plan, checkpoint, warehouse, facts, origin)
    finally:
        spark.stop()
