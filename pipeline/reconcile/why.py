"""Why one fact is as it is: its message, its batch, and its master rows as they are now, each asked at its source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import reduce
from operator import and_
from typing import Any

import pyarrow.dataset as ds
import pymysql
from kafka.errors import KafkaError

from pipeline.config.contracts import DimensionContract
from pipeline.plan import Plan
from pipeline.reconcile.broker import Broker, Place
from pipeline.reconcile.masters import Expected, asked_by, connect, keys_as_sent
from pipeline.reconcile.tables import WarehouseTable
from pipeline.reentry import application_of
from pipeline.warehouse import record

_LONGEST = 400  # characters of a message
_IDENTITY = ("message.topic", "message.partition", "message.offset")
Row = Mapping[str, Any]  # of a table, by where the values come from
Line = tuple[str, str]


@dataclass(frozen=True)
class Told:
    lines: list[Line]
    is_there: bool  # in a table

    def __str__(self) -> str:
        width = max(len(name) for name, _ in self.lines)
        return "\n".join(f"{name:<{width}}  {text}" for name, text in self.lines)


def why(plan: Plan, place: Place, offset: int) -> Told:
    """All that is known of one message."""
    lines = [("message", _message(plan, place, offset))]
    is_there = False
    for contract in (plan.facts, plan.rejects):
        table = WarehouseTable(plan.settings, contract)
        for row in _rows(table, place, offset):
            is_there = True
            lines.append((contract.name, _shown(row, table)))
            lines += _batch(plan, row)
            if contract is plan.facts:
                lines += _master(plan, table, row)
    if not is_there:
        lines.append(("tables", f"neither {plan.facts.name} nor {plan.rejects.name} has it: no batch has read it yet"))
    return Told(lines, is_there)


def _message(plan: Plan, place: Place, offset: int) -> str:
    with closing(Broker(plan.settings.kafka)) as broker:
        try:
            found = next(broker.read(place, offset, 1), None)
        except KafkaError as error:  # deleted by retention, or the whole topic is gone
            return f"{place} offset {offset:,}: Kafka does not give it: {type(error).__name__}"
    if found is None or found.offset != offset:
        return f"{place} offset {offset:,}: Kafka does not have it: deleted, compacted, or not sent yet"
    text = "null" if found.value is None else found.value[:_LONGEST].decode("utf-8", "replace")
    more = " …" if found.value and len(found.value) > _LONGEST else ""
    return f"{place} offset {offset:,}, sent {_moment(found.timestamp)}: {text}{more}"


def _rows(table: WarehouseTable, place: Place, offset: int) -> Iterator[Row]:
    table.require(_IDENTITY)
    equal = [ds.field(table.name(source)) == value for source, value in zip(_IDENTITY, (*place, offset), strict=True)]
    wanted = reduce(and_, equal)
    for batch in table.batches(list(table.contract.by_source), wanted):
        yield from batch.to_pylist()


def _shown(row: Row, table: WarehouseTable) -> str:
    given = (f"{table.name(source)} = {_value(value)}" for source, value in row.items() if source not in _IDENTITY)
    return ", ".join(given)


def _batch(plan: Plan, row: Row) -> list[Line]:
    """What the commit of its batch says; that of the facts has it for both tables."""
    batch, facts = row.get("job.batch"), WarehouseTable(plan.settings, plan.facts)
    if batch is None:
        return []
    if batch < 0:
        return [("entered", _entered(plan, facts, -batch))]
    for commit in facts.history():
        said = record.decode(commit.get(record.USER_METADATA))
        if said and (said.application, said.batch) == (plan.settings.job.name, batch):
            heeded = said.note.get("feed") or "not known: no feed was followed"
            at = f"{batch} of {said.application}, version {commit['version']}, {_moment(commit['timestamp'])}"
            return [("batch", at), ("heeded", f"the master's changes up to {heeded}")]
    return [("batch", f"{batch}: its commit has left the log of {facts.uri}")]


def _entered(plan: Plan, facts: WarehouseTable, number: int) -> str:
    """What the commit says that brought the message in later than its batch."""
    application = application_of(plan.settings.job.name)
    for commit in facts.history():
        said = record.decode(commit.get(record.USER_METADATA))
        if said and (said.application, said.batch) == (application, number):
            how = ", ".join(str(said.note[name]) for name in ("what", "reason", "by") if said.note.get(name))
            where = f"{number} of {application!r}, version {commit['version']}"
            return f"later, by {how}: {where}, {_moment(commit['timestamp'])}"
    return f"later, as {number} of {application!r}, whose commit has left the log of {facts.uri}"


def _master(plan: Plan, table: WarehouseTable, row: Row) -> Iterator[Line]:
    with closing(connect(plan.settings.master)) as connection:
        for name, contract in plan.dimensions.items():
            try:
                yield name, _now(contract, table, row, connection)
            except pymysql.MySQLError as error:  # the table is not as its contract says, or may not be read
                yield name, f"not known: {error}"


def _now(contract: DimensionContract, table: WarehouseTable, row: Row, connection: Any) -> str:
    sources = asked_by(contract)
    if not all(map(table.has, sources)):
        return f"not known: {table.contract.name} does not keep what it is joined by ({', '.join(sources)})"
    key = tuple(row[source] for source in keys_as_sent(contract))
    named = ", ".join(f"{part.column} = {_value(value)}" for part, value in zip(contract.natural_key, key, strict=True))
    if None in key:
        return f"{named}: a null key has no master row, ever"
    carried = [field for field in contract.columns if table.has(f"{contract.name}.{field.name}")]
    expected = Expected(contract, list(contract.columns), connection)
    rows = expected.rows([key]).get(key, [])
    if contract.validity and rows:
        at = row[sources[-1]]
        named += f", valid at {_value(at)}"
        rows = expected.counting(rows, at)
    if not rows:
        return f"{named}: {contract.table} has no such row now"
    told = []
    for values in rows:
        now = dict(zip(contract.columns.names, values, strict=True))
        same = all(row[f"{contract.name}.{field.name}"] == now[field.name] for field in carried)
        columns = ", ".join(f"{column} = {_value(value)}" for column, value in now.items())
        told.append(f"{columns} ({'as in the fact' if same else 'not what the fact has'})")
    return f"{named}, in {contract.table} now: {'; '.join(told)}"


def _value(value: Any) -> str:
    if isinstance(value, bytes):
        return repr(value[:_LONGEST])
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S.%f} UTC"
    return "null" if value is None else str(value)


def _moment(milliseconds: int) -> str:
    return f"{datetime.fromtimestamp(milliseconds / 1000, timezone.utc):%Y-%m-%d %H:%M:%S.%f} UTC"
