"""A history's Delta table. Each commit holds rows and the position in the master's log up to which they are told.

The position is the commit's Delta transaction besides, under a name that all syncs of a table share: of two that begin
at one position the second is refused by Delta, whatever job it belongs to.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import CommitProperties, Field, PostCommitHookProperties, Transaction, WriterProperties, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.schema import PrimitiveType

from pipeline.config.settings import WarehouseSettings
from pipeline.errors import WarehouseRefused
from pipeline.history import record
from pipeline.history.layout import CURRENT, NUMBER, HistoryLayout
from pipeline.history.record import SyncRecord
from pipeline.history.versions import Edit, Version
from pipeline.master.images import Row
from pipeline.warehouse import features, storage, tables
from pipeline.warehouse.log import TableLog
from pipeline.warehouse.record import USER_METADATA

_APPLICATION = "millrace sync"
_ATTEMPTS = 10
_MEMORY = 256 << 20  # bytes of a MERGE's operators, before they go to temporary files
_ROW_GROUP = 1 << 17
_AFTER = PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False)


class HistoryTable:
    def __init__(self, layout: HistoryLayout, warehouse: WarehouseSettings) -> None:
        self.layout, self._contract = layout, layout.table
        self.uri = storage.table_uri(warehouse, layout.name)
        self._options = warehouse.storage_options
        self._log: TableLog | None = None

    def look(self) -> bool:
        """Whether it is there; as `open`, but nothing is made or changed."""
        if not TableLog.exists(self.uri, self._options):
            tables.refuse_unmakeable(self.uri, self._contract, self._options)
            return False
        self._refuse_other_type()
        self._log = TableLog(self.uri, self._options)
        found = self._log.describe()
        tables.check(found, self._contract, self.uri)
        features.refuse_what_arrow_cannot_honour(found, self._contract, self.uri)
        return True

    def open(self) -> None:
        """Made if there is none; what a contract has come to name since is added."""
        if TableLog.exists(self.uri, self._options):
            self._refuse_other_type()
        opened, missing = tables.open_table(self.uri, self._contract, self._options)
        self._log = opened.log
        features.refuse_what_arrow_cannot_honour(opened.log.describe(), self._contract, self.uri)
        if missing:
            added = [Field(column.name, PrimitiveType(tables.delta_type(column.type))) for column in missing]
            opened.log.table.alter.add_columns(added)
            opened.log.refresh()

    @property
    def log(self) -> TableLog:
        assert self._log is not None, "it is opened before it is used"
        return self._log

    @property
    def sequence(self) -> int:
        """Of the newest commit."""
        return self.log.last_batch(_APPLICATION) or 0

    def newest(self) -> SyncRecord | None:
        """What the newest commit said; None if there is none, it has left the log, or its rows were taken back."""
        self.log.refresh()
        for limit in (8, None):  # merging and maintenance may lie above it
            for commit in self.log.table.history(limit):
                if said := record.decode(commit.get(USER_METADATA)):
                    is_so = said.sequence == self.sequence and not self.log.taken_back(commit["version"])
                    return said if is_so else None
        return None

    def next_number(self) -> int:
        """One that no version has, where no commit says it."""
        batches = self.log.table.to_pyarrow_dataset().to_batches(columns=[NUMBER])
        return 1 + max((pc.max(batch[0]).as_py() for batch in batches if batch.num_rows), default=0)

    def present(self, keys: Sequence[Row]) -> list[Version]:
        """The present versions of these keys."""
        if not keys:
            return []
        kinds = [self._contract.schema.field(name).type for name in self.layout.key]
        wanted = ds.scalar(True)
        for place, (name, kind) in enumerate(zip(self.layout.key, kinds, strict=True)):
            values = pa.array([key[place] for key in keys], kind).unique()
            # By numbers row groups are left out. Texts are cast, or they were compared with bounds of another type,
            # which pyarrow cannot: that of deltalake's files.
            column = ds.field(name) if pa.types.is_integer(kind) else ds.field(name).cast(kind)
            wanted &= column.isin(values)
        dataset = self._present()
        # First the keys alone: nearly all rows of a first snapshot are new.
        numbers = dataset.to_table(columns=[NUMBER], filter=wanted)[NUMBER]
        if not len(numbers):
            return []
        bounds, column = pc.min_max(numbers), ds.field(NUMBER)
        these = column.isin(numbers) & (column >= bounds["min"]) & (column <= bounds["max"])
        width, asked = len(kinds), set(keys)
        found = self.layout.versions(dataset.to_table(filter=these))
        return [version for version in found if version.row[:width] in asked]

    def keys_before(self, number: int, rows: int) -> Iterator[pa.RecordBatch]:
        """The keys of present versions below this number, as the table has them at the beginning."""
        wanted = ds.field(NUMBER) < number
        reading = {"columns": self.layout.key, "filter": wanted, "batch_size": rows, "batch_readahead": 1}
        yield from (batch for batch in self._present().to_batches(**reading) if batch.num_rows)

    def commit(self, edit: Edit, said: SyncRecord) -> None:
        """Rows and position, or neither."""
        rows = self._as_rows(edit)
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                self._write(rows, said)
            except (DeltaError, OSError) as error:
                # The answer may have been lost although the commit is there.
                newest = self.newest()
                if newest is None or newest.token != said.token:
                    self._refuse_second(said)
                    if attempt == _ATTEMPTS or not isinstance(error, CommitFailedError):
                        raise
                    continue
            self.log.refresh()
            self.log.keep()
            return

    def _write(self, rows: pa.Table, said: SyncRecord) -> None:
        self.log.refresh()
        self._refuse_second(said)
        properties = CommitProperties(
            custom_metadata={USER_METADATA: record.encode(said)},
            app_transactions=[Transaction(_APPLICATION, said.sequence, time.time_ns() // 1_000_000)],
        )
        writer = WriterProperties(compression="SNAPPY", max_row_group_size=_ROW_GROUP)
        both: dict[str, Any] = {"commit_properties": properties, "post_commithook_properties": _AFTER}
        does = rows["does"].unique().to_pylist()
        if not does:
            schema, partition_by = self.log.table.schema(), list(self._contract.partition_by)
            self.log.table.create_write_transaction([], "append", schema, partition_by=partition_by, **both)
        elif does == ["begin"]:
            rows = rows.drop_columns(["does"])
            write_deltalake(self.log.table, rows, mode="append", writer_properties=writer, **both)
        else:
            self._merge(rows, writer, both)

    def _merge(self, rows: pa.Table, writer: WriterProperties, both: dict[str, Any]) -> None:
        known = pc.min_max(rows.filter(pc.not_equal(rows["does"], "begin"))[NUMBER]).as_py()
        same = f"t.{NUMBER} = s.{NUMBER} AND t.{NUMBER} >= {known['min']} AND t.{NUMBER} <= {known['max']}"
        if self.layout.keeps_ended:
            same = f"t.{CURRENT} = true AND {same}"
        every = {_quoted(name): f"s.{_quoted(name)}" for name in self._contract.schema.names}
        merge = self.log.table.merge(
            rows, same, "s", "t", streamed_exec=False, max_spill_size=_MEMORY, writer_properties=writer, **both
        )
        merge = merge.when_matched_delete("s.does = 'drop'").when_matched_update(every, "s.does = 'change'")
        merge.when_not_matched_insert(every, "s.does = 'begin'").execute()

    def _as_rows(self, edit: Edit) -> pa.Table:
        begun, changed = list(edit.begun.values()), list(edit.changed.values())
        dropped = [pa.table({NUMBER: pa.array(sorted(edit.dropped), pa.int64())})]
        if not self.layout.keeps_ended:
            begun = [version for version in begun if version.until is None]
            dropped.append(self.layout.as_table(v for v in changed if v.until).select([NUMBER]))
            changed = [version for version in changed if version.until is None]
        does = {
            "begin": self.layout.as_table(begun),
            "change": self.layout.as_table(changed),
            "drop": pa.concat_tables(dropped),
        }
        marked = [rows.append_column("does", pa.array([what] * len(rows), pa.string())) for what, rows in does.items()]
        return pa.concat_tables(marked, promote_options="default")

    def _present(self) -> Any:
        """The files of present versions."""
        files = pa.table(self.log.table.get_add_actions(flatten=True))
        if self.layout.keeps_ended and len(files):
            files = files.filter(files[f"partition.{CURRENT}"])
        schema = pa.schema(field for field in self._contract.schema if field.name not in self._contract.partition_by)
        if not len(files):
            return ds.dataset(schema.empty_table())
        folder = storage.filesystem(self.uri, self._options)
        return ds.dataset(files["path"].to_pylist(), schema, format="parquet", filesystem=folder)

    def _refuse_second(self, said: SyncRecord) -> None:
        if self.sequence >= said.sequence:
            raise WarehouseRefused(
                f"{self.uri}: another sync of this table has committed meanwhile. Nothing is lost or doubled: let it "
                f"run alone, or start this one again when it is done."
            )

    def _refuse_other_type(self) -> None:
        found = TableLog(self.uri, self._options).describe()
        if (CURRENT in found.columns) != self.layout.keeps_ended:
            kept, wanted = ("2", "1") if CURRENT in found.columns else ("1", "2")
            raise WarehouseRefused(
                f"{self.uri} is a history of type {kept}, and dimensions.{self.layout.contract.name}.history asks for "
                f"type {wanted}. Set it back, or move the table away: a new one is begun."
            )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
