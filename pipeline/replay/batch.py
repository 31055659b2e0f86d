"""What the commit of a batch says of it: which messages, when, as of which place; and what Kafka still has of them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from pipeline.config.contracts import TableContract
from pipeline.driver.origin import Origin, of_note
from pipeline.driver.topics import Topics
from pipeline.errors import TopicChanged, WarehouseRefused
from pipeline.kafka.ranges import Range
from pipeline.master.feed import POLLED
from pipeline.plan import Plan
from pipeline.replay.moments import Between, Wishes, as_of
from pipeline.warehouse import record, storage, tables
from pipeline.warehouse.log import TableLog

CLOCKS = timedelta(seconds=1)  # by which the clocks of master and job may differ


@dataclass(frozen=True)
class FoundBatch:
    number: int
    application: str
    version: int
    committed: datetime
    asked: Between
    facts: TableLog
    origin: Origin
    ranges: list[Range]  # that Kafka still has
    gone: list[Range]
    healings: list[datetime]  # when facts were healed, after it

    @property
    def healed_until(self) -> datetime | None:
        return max(self.healings, default=None)


def find(plan: Plan, wishes: Wishes) -> FoundBatch:
    """Refuses a batch of which it is not known what it read, or as of when."""
    log, application = opened(plan, plan.facts), plan.settings.job.name
    history = log.table.history()
    version, committed, origin = _commit(log, history, application, wishes.batch)
    ranges = [_range(name, *offsets) for name, offsets in origin.offsets.items()]
    here, gone = _in_kafka(Topics(plan.settings.kafka), origin, ranges)
    healings = [
        _moment(commit["timestamp"])
        for commit in history
        if commit["version"] > version and record.decode_healing(commit.get(record.USER_METADATA))
    ]
    asked = _asked(wishes, origin, committed)
    return FoundBatch(wishes.batch, application, version, committed, asked, log, origin, here, gone, healings)


def opened(plan: Plan, contract: TableContract) -> TableLog:
    uri, options = storage.table_uri(plan.settings.warehouse, contract.name), plan.settings.warehouse.storage_options
    log = TableLog.existing(uri, options)
    if missing := tables.check(log.describe(), contract, uri):
        raise WarehouseRefused(
            f"{uri} has no column {', '.join(column.name for column in missing)}, which the contract of "
            f"{contract.name} names: the contracts are not those that the job ran with. Set contracts.folder to these."
        )
    return log


def _commit(log: TableLog, history: list[dict[str, Any]], application: str, batch: int) -> tuple[int, datetime, Origin]:
    last = log.last_batch(application)
    if last is None or batch > last:
        newest = "it has none" if last is None else f"the newest is {last:,}"
        raise WarehouseRefused(f"{log.uri} has no batch {batch:,} of the job {application}: {newest}.")
    for commit in history:
        said = record.decode(commit.get(record.USER_METADATA))
        if said and (said.application, said.batch) == (application, batch):
            if taken := log.taken_back(commit["version"]):
                raise WarehouseRefused(
                    f"{log.uri}: batch {batch:,} is not in the table any more: {taken} took it out again."
                )
            if "offsets" not in said.note and "gaps" not in said.note and "ends" not in said.note:
                break  # by a release that did not note them
            return commit["version"], _moment(commit["timestamp"]), of_note(said.note)
    raise WarehouseRefused(
        f"{log.uri} does not tell which messages batch {batch:,} has read: its commit has left the log, which "
        f"delta.logRetentionDuration keeps for a while, or was made by a release that did not note them."
    )


def _asked(wishes: Wishes, origin: Origin, committed: datetime) -> Between:
    if wishes.as_of:
        return Between(as_of(wishes.as_of))
    if not origin.offsets:
        return Between(committed)  # nobody is going to ask
    if origin.feed in ("", POLLED):
        why = "the feed polled" if origin.feed else "no feed was followed then"
        raise WarehouseRefused(
            f"the commit of batch {wishes.batch:,} notes no place in the master's log: {why}, so it is not known as of "
            f"when its rows were read. Say it, with --as-of: it was committed at {committed.isoformat()}."
        )
    return Between(origin.feed, committed + CLOCKS)


def _in_kafka(topics: Topics, origin: Origin, ranges: list[Range]) -> tuple[list[Range], list[Range]]:
    """What is still there of these ranges, and what is not."""
    ids, names = topics.ids(), topics.names()
    for topic in sorted({each.topic for each in ranges}):
        known, now = origin.topics.get(topic), ids.get(topic)
        if known and now and known != now:
            raise TopicChanged(
                f"topic {topic} was deleted and created again: the batch was read from topic id {known}, the broker "
                f"now has id {now}. What lies at its offsets today are other messages, so it cannot be computed again."
            )
    there = [each for each in ranges if each.topic in names]
    first, end = topics.extents(_places(there))
    here: list[Range] = []
    gone = [each for each in ranges if each not in there]
    for each in there:
        begins = min(max(first[each.topic, each.partition], each.first), each.end)
        ends = max(min(end[each.topic, each.partition], each.end), begins)
        parts = ((each.first, begins, gone), (begins, ends, here), (ends, each.end, gone))
        for since, until, into in parts:
            if since < until:
                into.append(Range(each.topic, each.partition, since, until))
    return here, gone


def _places(ranges: list[Range]) -> dict[str, dict[str, int]]:
    places: dict[str, dict[str, int]] = {}
    for each in ranges:
        places.setdefault(each.topic, {})[str(each.partition)] = each.first
    return places


def _range(name: str, first: int, last: int, _messages: int) -> Range:
    topic, _, partition = name.rpartition("/")
    return Range(topic, int(partition), first, last + 1)


def _moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, timezone.utc)
