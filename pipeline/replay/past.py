"""The master's rows as they were: looked up in the history that `millrace sync` keeps, not in the master by a join."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from pipeline import columns, keys
from pipeline.config.contracts import DimensionContract
from pipeline.errors import BadSetting, WarehouseRefused
from pipeline.history import record
from pipeline.history.layout import NUMBER, HistoryLayout
from pipeline.plan import Plan
from pipeline.replay.batch import FoundBatch
from pipeline.replay.moments import Between, Wishes
from pipeline.replay.stored import A_PIECE_AT_A_TIME
from pipeline.replay.stretches import Order, Stretches
from pipeline.replay.versions import FROM, HELD, KEY, SINCE, TO, UNTIL, Mask, Versions, in_master
from pipeline.warehouse import storage, tables
from pipeline.warehouse.log import TableLog
from pipeline.warehouse.record import USER_METADATA

_MOMENT = pa.timestamp("us", "UTC")


def pasts(plan: Plan, batch: FoundBatch, wishes: Wishes) -> list[Past]:
    """Of the dimensions that are computed again. Refuses those of which it is not known what they were then."""
    carried = dict.fromkeys(columns.origin(column.source) for column in plan.facts.columns)
    able = [name for name in carried if name in plan.dimensions]
    if unknown := [name for name in wishes.dimensions if name not in able]:
        raise BadSetting(
            f"--dimension {unknown[0]}: the facts {plan.facts.name} carry no column of it, but of "
            f"{', '.join(able) or 'no dimension'}."
        )
    wanted = [name for name in able if not wishes.dimensions or name in wishes.dimensions]
    return [Past.opened(plan, name, batch.asked) for name in wanted] if batch.origin.offsets else []


@dataclass
class Past:
    """One dimension's history, as of the moments that are asked for."""

    contract: DimensionContract
    log: TableLog
    stretches: Stretches
    asked: Between

    @staticmethod
    def opened(plan: Plan, name: str, asked: Between) -> Past:
        contract, kept = plan.dimensions[name], plan.settings.dimensions[name].history
        if contract.validity:
            raise BadSetting(
                f"dimension {name}: {contract.table} keeps a row for each time itself, by its contract's validity, so "
                f"no history is kept of it, and it is not known what it was then. {_leave_out(plan, name)}"
            )
        if kept != "type 2":
            has = "rows as they are, not as they were" if kept == "type 1" else "nothing"
            raise BadSetting(
                f'dimensions.{name}.history = "{kept}" keeps {has}. A batch is computed again from one of "type 2": '
                f"set it, and run `millrace sync`, for batches from then on. {_leave_out(plan, name)}"
            )
        layout = HistoryLayout(contract, keeps_ended=True)
        uri, options = storage.table_uri(plan.settings.warehouse, layout.name), plan.settings.warehouse.storage_options
        if not TableLog.exists(uri, options):
            raise WarehouseRefused(
                f"there is no history at {uri}. Run `millrace sync`, for batches from then on. {_leave_out(plan, name)}"
            )
        log = TableLog(uri, options)
        if missing := tables.check(log.describe(), layout.table, uri):
            raise WarehouseRefused(
                f"{uri} has no column {', '.join(column.name for column in missing)}, which the contract names. Run "
                f"`millrace sync` first: it adds them."
            )
        found = [
            (commit["version"], said)
            for commit in log.table.history()
            if (said := record.decode(commit.get(USER_METADATA)))
        ]
        if not found or (taken := log.taken_back(found[0][0])):
            why = f"{taken} took its rows back" if found else "no commit in its log does"
            raise WarehouseRefused(f"{uri} does not tell what it knows: {why}. Run `millrace sync` first.")
        stretches = Stretches.told_by(uri, [said for _, said in reversed(found)])
        stretches.require(asked)
        return Past(contract, log, stretches, asked)

    @property
    def name(self) -> str:
        return self.contract.name

    def versions(self, wanted: pa.Array, healed_until: datetime | None) -> Versions:
        """Of these packed keys, each once: what held at the first of the moments asked for, and what began after it up
        to the last one, or up to when facts were healed. The table goes by, and only that stays of it."""
        later = max((at for at in (self.asked.last, healed_until) if at is not None), default=None)
        found = [self._schema.empty_table()]
        for batch in self._batches(later):
            key = pc.index_in(keys.pack([batch[name] for name in self._key]), value_set=wanted)
            rows = pa.table(batch).append_column(KEY, key.cast(pa.int64())).filter(key.is_valid())
            if not len(rows):
                continue
            began, ended = self._by_then(rows)
            begins = np.zeros(len(rows), bool)
            if later is not None:
                begins = np.asarray(pc.less_equal(rows[SINCE], pa.scalar(later, _MOMENT)))
            rows = rows.append_column(HELD, pa.array(began)).filter(pa.array(~ended & (began | begins)))
            found.append(rows.select(self._schema.names).cast(self._schema))
        return Versions(self.contract, pa.concat_tables(found).combine_chunks(), len(wanted))

    def doubts(self, committed: datetime) -> list[str]:
        """Why what differs may be none: what the history does not know of the moments asked for."""
        if self.asked.last is None or isinstance(self.asked.first, datetime):
            return []
        told = [
            f"{self.log.uri} does not know what was between {before} and {after}, while the batch ran"
            for before, after in self.stretches.unknown_after(self.asked.first, self.asked.last)
        ]
        files = pa.table(self.log.table.get_add_actions(flatten=True))
        latest = pc.max(files[f"max.{SINCE}"]).as_py() if f"max.{SINCE}" in files.column_names else None
        if latest is None or latest < committed:
            told.append(
                f"{self.log.uri} is told up to {self.stretches.end}, and nothing in it is later than the batch's "
                f"commit: run `millrace sync`, and replay again, before you believe what differs in {self.name}"
            )
        return told

    @cached_property
    def _first(self) -> Order:
        assert isinstance(self.asked.first, str)
        return self.stretches.order(self.asked.first)

    def _batches(self, later: datetime | None) -> Iterator[pa.RecordBatch]:
        begun = None
        if later is not None and (self.asked.last is not None or isinstance(self.asked.first, datetime)):
            moments = (later, self.asked.first) if isinstance(self.asked.first, datetime) else (later,)
            begun = ds.field(SINCE) <= pa.scalar(max(moments), _MOMENT)
        yield from self.log.table.to_pyarrow_dataset().to_batches(
            columns=[*dict.fromkeys([*self._key, *(name for name in self._schema.names if name not in (KEY, HELD))])],
            filter=begun,
            **A_PIECE_AT_A_TIME,
        )

    def _by_then(self, rows: pa.Table) -> tuple[Mask, Mask]:
        """Which of these versions had begun at the first moment, and which had ended."""
        if isinstance(self.asked.first, datetime):
            moment = pa.scalar(self.asked.first, _MOMENT)
            ended = pc.fill_null(pc.less_equal(rows[UNTIL], moment), False)
            return np.asarray(pc.less_equal(rows[SINCE], moment)), np.asarray(ended)
        return self._is_before(rows[FROM]), self._is_before(rows[TO])

    def _is_before(self, positions: pa.ChunkedArray) -> Mask:
        told = positions.combine_chunks().dictionary_encode()
        first = self._first
        before = np.array([*(self.stretches.order(each) <= first for each in told.dictionary.to_pylist()), False], bool)
        is_before: Mask = before[np.asarray(pc.fill_null(told.indices.cast(pa.int64()), -1))]
        return is_before

    @property
    def _key(self) -> list[str]:
        return [part.column for part in self.contract.natural_key]

    @cached_property
    def _schema(self) -> pa.Schema:
        """Of what stays of the table."""
        table = HistoryLayout(self.contract, keeps_ended=True).table.schema
        carried = dict.fromkeys(in_master(self.contract, name) for name in self.contract.columns.names)
        told = [table.field(name).remove_metadata() for name in (*carried, NUMBER, SINCE, UNTIL, FROM, TO)]
        return pa.schema([pa.field(KEY, pa.int64()), pa.field(HELD, pa.bool_()), *told])


def _leave_out(plan: Plan, name: str) -> str:
    others = [other for other, kept in plan.settings.dimensions.items() if kept.history == "type 2" and other != name]
    words = " ".join(f"--dimension {other}" for other in others)
    return f"To compute the facts again without its columns: {words}." if others else ""
