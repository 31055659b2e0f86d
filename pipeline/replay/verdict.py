"""What came of a batch that was computed again: which facts and rejects are other than they should be."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from pipeline.kafka.ranges import Range
from pipeline.replay.batch import FoundBatch


@dataclass(frozen=True)
class Difference:
    topic: str
    partition: int
    offset: int
    column: str  # of the facts or rejects; empty: the row itself
    stands: str
    comes_out: str

    def __str__(self) -> str:
        where = f"{self.topic}/{self.partition} offset {self.offset:,}"
        return f"{where}{self.column and f', {self.column}'}: stands {self.stands}, comes out {self.comes_out}"


@dataclass
class OfDimension:
    """Facts, by what row of this dimension they have."""

    same: int = 0  # as of the first moment
    changed: int = 0  # as its key was later, up to the commit
    healed: int = 0  # unknown then, and given its row since
    different: int = 0

    def __str__(self) -> str:
        told = [f"{self.same:,} as of then", f"{self.changed:,} as changed while the batch ran"]
        return ", ".join([*told, f"{self.healed:,} healed since", f"{self.different:,} different"])


@dataclass
class Verdict:
    batch: FoundBatch
    limit: int
    dimensions: dict[str, OfDimension] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)  # dimensions
    facts: int = 0
    rejects: int = 0
    entered: int = 0  # facts of the same offsets that a backfill or a replay of rejects has written later
    different: int = 0  # facts and rejects
    differences: list[Difference] = field(default_factory=list)  # as many as are named
    notes: list[str] = field(default_factory=list)

    @property
    def gone(self) -> list[Range]:
        return self.batch.gone

    @property
    def ok(self) -> bool:
        return not (self.different or self.gone)

    @property
    def room(self) -> int:
        """For differences that are named."""
        return max(0, self.limit - len(self.differences))

    def as_json(self) -> dict[str, Any]:
        batch = self.batch
        return {
            "ok": self.ok, "batch": batch.number, "application": batch.application, "version": batch.version,
            "committed_at": batch.committed.isoformat(), "as_of": _told(batch.asked.first),
            "upto": _told(batch.asked.last), "facts": self.facts, "rejects": self.rejects, "different": self.different,
            "entered_later": self.entered, "dimensions": {n: asdict(of) for n, of in self.dimensions.items()},
            "left_out": self.left_out, "differences": [asdict(each) for each in self.differences],
            "gone": {str(each): [each.first, each.end - 1] for each in self.gone},
            "notes": self.notes,
        }  # fmt: skip

    def __str__(self) -> str:
        batch = self.batch
        at = f"{batch.committed:%Y-%m-%d %H:%M:%S.%f} UTC"
        lines = [f"batch {batch.number:,} of {batch.application}, version {batch.version}, {at}, as of {batch.asked}"]
        lines += map(str, self.differences)
        if (more := self.different - len({(d.topic, d.partition, d.offset) for d in self.differences})) > 0:
            lines.append(f"… and {more:,} more (--limit {self.limit})")
        lines += [f"{name}: {of}" for name, of in self.dimensions.items()]
        lines += [f"{name}: left out" for name in self.left_out]
        if self.entered:
            lines.append(f"{self.entered:,} facts at its offsets entered later, and are not of this batch")
        lines += [
            f"{each}: Kafka has deleted offsets {each.first:,} to {each.end - 1:,}: it is not known what they were"
            for each in self.gone
        ]
        return "\n".join([*lines, *self.notes, self._sum])

    @property
    def _sum(self) -> str:
        what = f"{self.facts:,} facts and {self.rejects:,} rejects"
        if self.different:
            return f"different: {self.different:,} of {what}"
        return f"{what}, bit for bit equal" + (" as far as Kafka has their messages" if self.gone else "")


def _told(moment: str | datetime | None) -> str | None:
    return moment.isoformat() if isinstance(moment, datetime) else moment
