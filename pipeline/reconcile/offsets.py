"""Every message of Kafka is in the warehouse once: as a fact or as a reject, and nothing else is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.reconcile.broker import Broker, Extent, Place
from pipeline.reconcile.tables import WarehouseTable
from pipeline.reconcile.verdict import SHOWN, Check

Offsets = npt.NDArray[np.int64]

IDENTITY = ("message.topic", "message.partition", "message.offset")
_MANY = (
    "Where a natural key comes twice in a master table, meshjoin and r-meshjoin write a fact for each of its rows. A "
    "`millrace rejects replay` that was killed leaves rejects that are facts, too: run it again."
)
_ASKED = 1_000  # offsets that are looked for in Kafka one by one, where the warehouse has none


@dataclass
class Found:
    """The offsets both tables hold, sorted, by partition, and how many rows each table has."""

    offsets: dict[Place, Offsets]
    facts: int
    rejects: int

    @property
    def first(self) -> dict[Place, int]:
        return {place: int(offsets[0]) for place, offsets in self.offsets.items()}


@dataclass
class _Wrong:
    """Offsets that should be there once."""

    first: list[str] = field(default_factory=list)
    count: int = 0

    def add(self, place: Place, offsets: Offsets, count: int | None = None) -> None:
        self.count += len(offsets) if count is None else count
        self.first += [f"{place}@{offset}" for offset in offsets[:SHOWN].tolist()]


def collect(facts: WarehouseTable, rejects: WarehouseTable) -> Found:
    """All offsets in the warehouse: eight bytes a message."""
    parts: dict[Place, list[Offsets]] = {}
    rows = [0, 0]
    for number, table in enumerate((facts, rejects)):
        for batch in table.batches(IDENTITY):
            rows[number] += batch.num_rows
            for place, offsets in _by_place(batch):
                parts.setdefault(place, []).append(offsets)
    return Found({place: np.sort(np.concatenate(of_place)) for place, of_place in parts.items()}, *rows)


def check(extents: Mapping[Place, Extent], found: Found, broker: Broker, uri: str) -> list[Check]:
    """Lost, twice, invented."""
    lost, twice, invented = _Wrong(), _Wrong(), _Wrong()
    expected = 0
    for place in sorted({*extents, *found.offsets}):
        offsets = found.offsets.get(place, np.empty(0, np.int64))
        extent = extents.get(place, Extent(0, 0))
        distinct = np.unique(offsets)
        repeated = offsets[1:][np.diff(offsets) == 0]
        twice.add(place, np.unique(repeated), len(repeated))
        invented.add(place, distinct[distinct >= extent.end])
        missing = missing_between(distinct, *extent)
        # Kafka may have dropped messages that the warehouse still has: those cannot be lost any more.
        early = int(np.count_nonzero(distinct < extent.first))
        empty = _without_message(broker, place, missing)
        lost.add(place, np.setdiff1d(missing, empty))
        expected += early + extent.end - extent.first - len(empty)
    total = found.facts + found.rejects
    rows = f"Look at the rows of both tables with that topic/partition@offset below {uri.rpartition('/')[0]}"
    behind = "They are in Kafka and in neither table. See the job's log: has it caught up (backlog 0)?"
    from_where = f"{rows}: Kafka has no such offset. Was the topic deleted and made again?"
    sum_ = f"{found.facts:,} + {found.rejects:,} = {total:,}"
    return [
        Check("messages in Kafka = facts + rejects", f"{expected:,}", sum_, expected == total, "See the next checks."),
        Check.none("messages lost", lost.first, f"{expected:,}", behind, lost.count),
        Check.none(
            "messages twice", twice.first, f"{total:,}", f"{rows} and compare their `batch`. {_MANY}", twice.count
        ),
        Check.none("rows without a message", invented.first, f"{total:,}", from_where, invented.count),
    ]


def _by_place(batch: pa.RecordBatch) -> Iterator[tuple[Place, Offsets]]:
    topics = batch.column(0).cast(pa.string()).dictionary_encode()
    codes, partitions = np.asarray(topics.indices), np.asarray(batch.column(1))
    offsets = np.asarray(batch.column(2)).astype(np.int64)
    for code in np.unique(codes):
        for partition in np.unique(partitions[codes == code]):
            here = (codes == code) & (partitions == partition)
            yield Place(topics.dictionary[int(code)].as_py(), int(partition)), offsets[here]


def missing_between(distinct: Offsets, first: int, end: int) -> Offsets:
    """The offsets from `first` up to `end` that are not there."""
    inside = distinct[(distinct >= first) & (distinct < end)]
    edges = np.concatenate([[first - 1], inside, [end]])
    gaps = np.flatnonzero(np.diff(edges) > 1)
    return np.concatenate([np.empty(0, np.int64), *(np.arange(edges[g] + 1, edges[g + 1]) for g in gaps)])


def _without_message(broker: Broker, place: Place, missing: Offsets) -> Offsets:
    """Those of the missing offsets that Kafka has no message at: transactions and compaction leave such. Only the
    first are asked for."""
    asked = missing[:_ASKED]
    runs = np.split(asked, np.flatnonzero(np.diff(asked) > 1) + 1)
    held = {m.offset for run in runs if len(run) for m in broker.read(place, int(run[0]), len(run))}
    return np.array([offset for offset in asked.tolist() if offset not in held], np.int64)
