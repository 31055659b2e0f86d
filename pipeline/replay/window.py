"""The facts and rejects of one window: those computed again beside those that stand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline import columns, facts
from pipeline.plan import Plan
from pipeline.reentry.seen import IDENTITY, Offsets
from pipeline.replay.batch import CLOCKS, FoundBatch
from pipeline.replay.past import Past
from pipeline.replay.rows import NEVER, Moments, RowsOfThen
from pipeline.replay.stored import Numbering, Spans, StoredRows, computed_of, differ, paired
from pipeline.replay.verdict import Difference, Verdict
from pipeline.replay.versions import microseconds

_MICROSECOND = timedelta(microseconds=1)
_LONGEST = 200  # characters of a value


@dataclass(frozen=True)
class Tables:
    plan: Plan
    batch: FoundBatch
    pasts: Sequence[Past]
    facts: StoredRows
    rejects: StoredRows

    @property
    def is_whole(self) -> bool:
        """No dimension is left out whose keys might repeat, and make several facts of a sale."""
        return len(self.pasts) == len(self.plan.dimensions)


@dataclass
class Window:
    tables: Tables
    spans: Spans
    sales: pa.Table
    rejected: pa.Table
    different: list[Offsets] = field(default_factory=list)  # numbers of messages

    def __post_init__(self) -> None:
        self._numbering = Numbering(self.spans)
        stand = self.tables.facts.at(self.spans)
        entered = _entered(self.tables.facts.column(stand, columns.BATCH), len(stand))
        self._entered = self._numbers(self.tables.facts, stand.filter(pa.array(entered)))
        self._stand = stand.filter(pa.array(~entered))
        self._stand_rejected = self.tables.rejects.at(self.spans)

    def check(self, verdict: Verdict) -> None:
        self._verdict = verdict
        verdict.facts += len(self.sales)
        verdict.rejects += len(self.rejected)
        verdict.entered += len(self._entered)
        sales, rejected = (
            self._numbering.of([rows[name] for name in IDENTITY]) for rows in (self.sales, self.rejected)
        )
        stand = self._numbers(self.tables.facts, self._stand)
        stand_rejected = self._numbers(self.tables.rejects, self._stand_rejected)
        self._whole_rows(sales, rejected, stand, stand_rejected)
        self._facts(sales, *paired(sales, stand))
        self._rejects(rejected, *paired(rejected, stand_rejected))
        if self.different:
            verdict.different += len(np.unique(np.concatenate(self.different)))

    def _whole_rows(self, sales: Offsets, rejected: Offsets, stand: Offsets, stand_rejected: Offsets) -> None:
        """Rows that are there and do not come out, and the other way round."""
        of_sales = np.concatenate([stand, self._entered])
        missing = sales[~np.isin(sales, of_sales)]
        self._tell(missing[np.isin(missing, stand_rejected)], "a reject", "a fact")
        self._tell(missing[~np.isin(missing, stand_rejected)], "no fact", "one")
        surplus = np.unique(stand[~np.isin(stand, sales)])
        self._tell(surplus[np.isin(surplus, rejected)], "a fact", "a reject")
        self._tell(surplus[~np.isin(surplus, rejected)], "a fact", "nothing: Kafka has no message there")
        if self.tables.is_whole:
            number, times = np.unique(stand, return_counts=True)
            self._tell(number[times > 1], "more than one fact", "one")
        self._tell(rejected[~np.isin(rejected, np.concatenate([stand_rejected, of_sales]))], "no reject", "one")
        strange = stand_rejected[~np.isin(stand_rejected, rejected)]
        self._tell(strange[np.isin(strange, stand)], "a reject beside the fact", "the fact alone")
        known = np.concatenate([sales, of_sales])
        self._tell(strange[~np.isin(strange, known)], "a reject", "nothing: Kafka has no message there")

    def _facts(self, numbers: Offsets, computed: Offsets, standing: Offsets) -> None:
        """The pairs of a sale and its fact, column by column."""
        stand, tables = self._stand.take(pa.array(standing)), self.tables
        healed = self._healed(stand)
        rows = [RowsOfThen(past, self.sales, healed) for past in tables.pasts]
        sales = self.sales
        for of_dimension in rows:
            for source, values in of_dimension.values.items():
                sales = sales.append_column(source, values)
        names = {past.name for past in tables.pasts}
        contract = computed_of(tables.plan.facts, [name for name in tables.plan.dimensions if name not in names])
        batch = tables.batch
        come = facts.to_columns(contract, sales, batch.application, batch.number).take(pa.array(computed))
        unequal = {column: differ(come[column.name], stand[column.name]) for column in contract.columns}
        for past, of_dimension in zip(tables.pasts, rows, strict=True):
            own = [column for column in contract.columns if columns.origin(column.source) == past.name]
            other = np.flatnonzero(np.logical_or.reduce([unequal[column] for column in own]))
            standing_there = {column.source: stand[column.name].take(pa.array(other)) for column in own}
            changed, is_healed = of_dimension.explained(computed[other], standing_there, healed[other])
            explained = other[changed | is_healed]
            for column in own:
                unequal[column][explained] = False
            tally = self._verdict.dimensions[past.name]
            tally.same += len(stand) - len(other)
            tally.changed += int(changed.sum())
            tally.healed += int(is_healed.sum())
            tally.different += len(other) - len(explained)
        for column in contract.columns:
            self._tell_values(numbers[computed], unequal[column], column.name, come, stand)

    def _rejects(self, numbers: Offsets, computed: Offsets, standing: Offsets) -> None:
        contract, batch = computed_of(self.tables.plan.rejects, []), self.tables.batch
        come = facts.to_columns(contract, self.rejected, batch.application, batch.number).take(pa.array(computed))
        stand = self._stand_rejected.take(pa.array(standing))
        for column in contract.columns:
            self._tell_values(
                numbers[computed], differ(come[column.name], stand[column.name]), column.name, come, stand
            )

    def _healed(self, stand: pa.Table) -> Moments:
        """When each fact was healed at the latest. If the facts do not keep it, it may have been any that the log has a
        healing after the batch of."""
        kept = self.tables.facts.column(stand, columns.HEALED_AT)
        if kept is not None:
            at = np.asarray(pc.fill_null(kept.cast(pa.int64()), NEVER))
            return np.where(at == NEVER, NEVER, at + CLOCKS // _MICROSECOND)
        until = self.tables.batch.healed_until
        return np.full(len(stand), microseconds(until + CLOCKS) if until else NEVER)

    def _tell(self, numbers: Offsets, stands: str, comes_out: str) -> None:
        self.different.append(numbers)
        shown = numbers[: self._verdict.room]
        self._verdict.differences += [Difference(*self._numbering.message(n), "", stands, comes_out) for n in shown]

    def _tell_values(self, numbers: Offsets, unequal: np.ndarray, name: str, come: pa.Table, stand: pa.Table) -> None:
        rows = np.flatnonzero(unequal)
        self.different.append(numbers[rows])
        for row in rows[: self._verdict.room].tolist():
            values = (_shown(table[name][row].as_py()) for table in (stand, come))
            self._verdict.differences.append(Difference(*self._numbering.message(numbers[row]), name, *values))

    def _numbers(self, table: StoredRows, rows: pa.Table) -> Offsets:
        return self._numbering.of(table.identities(rows))


def _entered(batches: pa.ChunkedArray | None, rows: int) -> np.ndarray:
    """Which of the facts came by a backfill or a replay of rejects: their batch is a number with a minus."""
    return np.zeros(rows, bool) if batches is None else np.asarray(pc.fill_null(pc.less(batches, 0), False))


def _shown(value: Any) -> str:
    if value is None:
        return "null"
    return repr(value)[:_LONGEST] if isinstance(value, str | bytes) else str(value)
