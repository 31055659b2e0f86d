"""What lies in the table of rejects: by reason, and one by one."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from operator import and_
from typing import Any

import pyarrow as pa

from pipeline import columns
from pipeline.plan import Plan
from pipeline.reentry.entrance import opened
from pipeline.reentry.seen import IDENTITY, Seen, require

_OF_A_REJECT = {**columns.MESSAGE, **columns.REJECT, **columns.JOB}


@dataclass(frozen=True)
class Wanted:
    """Of which rejects: of all, or only those of a topic, or with a reason."""

    topic: str = ""
    reason: str = ""

    def where(self, rejects: Seen) -> Any:
        chosen = {columns.TOPIC: self.topic, columns.REASON: self.reason}
        conditions = [rejects.field(source) == value for source, value in chosen.items() if value]
        return reduce(and_, conditions) if conditions else None


@dataclass
class Group:
    """Rejects of one topic with one reason."""

    reason: str
    topic: str
    rejects: int
    first_batch: int | None
    last_batch: int | None
    example: str  # topic partition offset, as `show` takes them
    detail: str | None

    def add(self, other: Group) -> None:
        self.rejects += other.rejects
        batches = [b for b in (self.first_batch, other.first_batch) if b is not None]
        self.first_batch = min(batches, default=None)
        self.last_batch = max((b for b in (self.last_batch, other.last_batch) if b is not None), default=None)

    def __str__(self) -> str:
        batches = "" if self.first_batch is None else f", batches {self.first_batch:,} to {self.last_batch:,}"
        return f"{self.rejects:,} {self.reason} in {self.topic}{batches}; such as {self.example}: {self.detail}"


def groups(plan: Plan, wanted: Wanted) -> list[Group]:
    """The rejects by reason and topic, the most frequent first."""
    require(plan.rejects, [*IDENTITY, columns.REASON])
    rejects = _seen(plan)
    found: dict[tuple[str, str], Group] = {}
    sources = [source for source in _OF_A_REJECT if source in plan.rejects.by_source and source != columns.VALUE]
    for some in rejects.rows({source: source for source in sources}, wanted.where(rejects)):
        for group in _groups(pa.table(some)):
            if (known := found.get((group.reason, group.topic))) is not None:
                known.add(group)
            else:
                found[group.reason, group.topic] = group
    return sorted(found.values(), key=lambda group: (-group.rejects, group.reason, group.topic))


def _groups(rows: pa.Table) -> Iterator[Group]:
    keys = [columns.REASON, columns.TOPIC]
    of_group = [(columns.OFFSET, "count"), (columns.OFFSET, "first"), (columns.PARTITION, "first")]
    optional = [(columns.DETAIL, "first"), (columns.BATCH, "min"), (columns.BATCH, "max")]
    of_group += [(name, what) for name, what in optional if name in rows.column_names]
    for row in rows.group_by(keys, use_threads=False).aggregate(of_group).to_pylist():
        yield Group(
            row[columns.REASON],
            row[columns.TOPIC],
            row[f"{columns.OFFSET}_count"],
            row.get(f"{columns.BATCH}_min"),
            row.get(f"{columns.BATCH}_max"),
            f"{row[columns.TOPIC]} {row[f'{columns.PARTITION}_first']} {row[f'{columns.OFFSET}_first']}",
            row.get(f"{columns.DETAIL}_first"),
        )


def one(plan: Plan, topic: str, partition: int, offset: int) -> dict[str, Any] | None:
    """The reject of this message, by the names of the journey; None if it is none."""
    require(plan.rejects, IDENTITY)
    rejects = _seen(plan)
    sources = [source for source in _OF_A_REJECT if source in plan.rejects.by_source]
    where = rejects.of_place(topic, partition, offset)
    for some in rejects.rows({source: source for source in sources}, where):
        for row in some.to_pylist():
            return dict(row)
    return None


def told(row: dict[str, Any]) -> dict[str, Any]:
    """A reject in words and numbers: what JSON has a type for."""
    said = {name.partition(".")[2]: value for name, value in row.items() if name != columns.VALUE}
    said = {name: value.isoformat() if isinstance(value, datetime) else value for name, value in said.items()}
    if columns.VALUE in row:
        said |= _bytes(row[columns.VALUE])
    return said


def _bytes(value: bytes | None) -> dict[str, Any]:
    """As text where a terminal can show all of it, else in base64.

    >>> _bytes(b'{"a": 1}'), _bytes(b"\\x00\\xff"), _bytes(None)
    ({'text': '{"a": 1}'}, {'base64': 'AP8='}, {'text': None})
    """
    if value is None:
        return {"text": None}
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = "\0"
    if all(character.isprintable() or character in "\n\t" for character in text):
        return {"text": text}
    return {"base64": base64.b64encode(value).decode()}


def _seen(plan: Plan) -> Seen:
    return Seen(opened(plan, plan.rejects), plan.rejects, plan.settings.job.name)
