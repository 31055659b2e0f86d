"""A sample of the warehouse against the raw messages, decoded here once more, with nothing but json and decimal."""

from __future__ import annotations

import base64
import json
import random
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from functools import reduce
from itertools import accumulate
from operator import or_
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from pipeline.config.contracts import TopicContract
from pipeline.plan import Plan
from pipeline.reconcile.broker import Broker, Extent, Message, Place
from pipeline.reconcile.tables import WarehouseTable
from pipeline.reconcile.verdict import Check

SAMPLE = 1_000  # messages, at least, where there are as many
RUN = 50  # messages read in a row: few waits for the broker, and still many places
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_RFC_3339 = re.compile(r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,6})0*)?(?:[Zz]|([+-])(\d\d):(\d\d))")

Run = tuple[Place, int]
Identity = tuple[str, int, int]
Found = tuple[Identity, dict[str, Any]]  # a row of a table, by the columns' sources


def check(
    plan: Plan,
    broker: Broker,
    extents: Mapping[Place, Extent],
    facts: WarehouseTable,
    rejects: WarehouseTable,
    seed: int,
) -> list[Check]:
    """Facts say what their messages say; rejects keep their messages byte for byte."""
    runs = choose(extents, random.Random(seed))
    sent = {(*place, m.offset): m for place, first in runs for m in broker.read(place, first, RUN)}
    # A user's own table of rejects may leave the bytes out.
    kept = [source for source in ("message.value",) if rejects.has(source)]
    their_facts = [found for found in _rows(facts, _sale_columns(facts), runs) if found[0] in sent]
    their_rejects = [found for found in _rows(rejects, kept, runs) if found[0] in sent]
    compared = len(their_facts) + len(their_rejects)
    why = "Each sampled message must be one row of one table: see the checks for lost and for repeated messages."
    return [
        _differing("facts", _wrong_facts(plan, sent, their_facts), len(their_facts), facts),
        _differing("rejects", _wrong_rejects(sent, their_rejects), len(their_rejects), rejects),
        Check(
            "messages sampled",
            f"{len(sent):,}",
            f"{compared:,}",
            compared == len(sent),
            why,
        ),
    ]


def _differing(what: str, wrong: list[str], compared: int, table: WarehouseTable) -> Check:
    look = f"Compare the row with the message at that topic/partition@offset in {table.uri}."
    return Check.none(f"{what} that differ from their message", wrong, f"{compared:,} sampled", look)


def choose(extents: Mapping[Place, Extent], random_: random.Random) -> list[Run]:
    """Runs of offsets that do not overlap, from anywhere, for at least the sample's size."""
    places = sorted(extents)
    counts = [-(-(extents[place].end - extents[place].first) // RUN) for place in places]
    ends = list(accumulate(counts))
    # A partition's last run may be a short one.
    wanted = min(sum(counts), -(-SAMPLE // RUN) + len(places))
    chosen = []
    for number in sorted(random_.sample(range(sum(counts)), wanted)):
        at = bisect_right(ends, number)
        chosen.append((places[at], extents[places[at]].first + (number - ends[at] + counts[at]) * RUN))
    return chosen


def _sale_columns(facts: WarehouseTable) -> list[str]:
    return [c.source for c in facts.contract.columns if c.source.startswith("sale.")]


def _rows(table: WarehouseTable, sources: list[str], runs: list[Run]) -> Iterator[Found]:
    """The table's rows in these runs."""
    if not runs:
        return
    topic, partition, offset = (ds.field(table.name(f"message.{part}")) for part in ("topic", "partition", "offset"))
    within = reduce(
        or_, ((topic == p.topic) & (partition == p.partition) & (offset >= n) & (offset < n + RUN) for p, n in runs)
    )
    identity = [f"message.{part}" for part in ("topic", "partition", "offset")]
    stamped = [s for s in ("message.timestamp", "message.date") if table.has(s)]
    for batch in table.batches([*identity, *stamped, *sources], within):
        for row in batch.to_pylist():
            yield (row.pop(identity[0]), row.pop(identity[1]), row.pop(identity[2])), row


def _wrong_facts(plan: Plan, sent: Mapping[Identity, Message], rows: Sequence[Found]) -> list[str]:
    wrong = []
    for identity, row in rows:
        try:
            should = decode(plan.topic(identity[0]), sent[identity].value)
        except (ValueError, ArithmeticError, TypeError, RecursionError) as error:
            wrong.append(f"{_shown(identity)}: is a fact, but its message is no sale ({error})")
            continue
        should |= _stamps(sent[identity])
        for source, value in row.items():
            if should.get(source) != value or type(should.get(source)) is not type(value):
                wrong.append(f"{_shown(identity)}: {source} is {value!r}, the message says {should.get(source)!r}")
    return wrong


def _wrong_rejects(sent: Mapping[Identity, Message], rows: Sequence[Found]) -> list[str]:
    wrong = []
    for identity, row in rows:
        should = {"message.value": sent[identity].value} | _stamps(sent[identity])
        wrong += [f"{_shown(identity)}: {source} differs" for source, value in row.items() if should[source] != value]
    return wrong


def _stamps(message: Message) -> dict[str, Any]:
    at = _EPOCH + timedelta(milliseconds=message.timestamp)
    return {"message.timestamp": at, "message.date": at.date()}


def decode(contract: TopicContract, value: bytes | None) -> dict[str, Any]:
    """The fields of a message by `sale.<column>`; raises where it is no sale."""
    if value is None:
        raise ValueError("it has no value")
    document = json.loads(value.decode("utf-8"), parse_float=Decimal, parse_constant=_refuse)
    if not isinstance(document, dict):
        raise TypeError("it is not an object")
    fields = {}
    for field in contract.fields:
        if field.required and field.name not in document:
            raise ValueError(f"{field.name} is missing")
        given = document.get(field.name)
        if given is None and not field.nullable and field.name in document:
            raise ValueError(f"{field.name} is null")
        fields[f"sale.{field.column}"] = None if given is None else _converted(given, field.type)
    return fields


def _converted(given: Any, kind: pa.DataType) -> Any:
    if pa.types.is_decimal(kind):
        exact = Decimal(given)
        if exact != round(exact, kind.scale):
            raise ValueError(f"{given} has more than {kind.scale} decimals")
        return exact
    if pa.types.is_timestamp(kind):
        return _instant(given)
    if pa.types.is_date(kind):
        return date.fromisoformat(given)
    if pa.types.is_binary(kind):
        return base64.b64decode(given, validate=True)
    if pa.types.is_floating(kind):
        return float(given)
    if pa.types.is_integer(kind) and isinstance(given, Decimal):
        if given != int(given):
            raise ValueError(f"{given} is not a whole number")
        return int(given)
    return given


def _instant(text: str) -> datetime:
    found = _RFC_3339.fullmatch(text)
    if not found:
        raise ValueError(f"{text!r} is not an RFC 3339 time")
    year, month, day, hour, minute, second = (int(part) for part in found.groups()[:6])
    micros = int((found[7] or "0").ljust(6, "0"))
    offset = timedelta(hours=int(found[9] or 0), minutes=int(found[10] or 0))
    at = datetime(year, month, day, hour, minute, 0, tzinfo=timezone.utc) + timedelta(
        seconds=second, microseconds=micros
    )
    return at + offset if found[8] == "-" else at - offset


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def _shown(identity: Identity) -> str:
    return f"{identity[0]}/{identity[1]}@{identity[2]}"
