"""The warehouse's tables as they are on disk, read by deltalake and pyarrow, column by column and never whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from pipeline.config.contracts import TableContract
from pipeline.config.settings import Settings
from pipeline.errors import MillraceError
from pipeline.warehouse.storage import table_uri

_BATCH_ROWS = 1 << 17
_MERGE_ROWS = 1 << 20  # distinct rows of batches that are kept before they are made distinct among each other
ROWS = " rows"  # no source is called that


class NotReconcilable(MillraceError):
    """What a proof needs is not there."""


class WarehouseTable:
    """The rows one application wrote to one table. Columns are named by where they come from: `sale.quantity`."""

    def __init__(self, settings: Settings, contract: TableContract) -> None:
        self.contract = contract
        self.uri = table_uri(settings.warehouse, contract.name)
        self._settings = settings

    def has(self, source: str) -> bool:
        return source in self.contract.by_source

    def name(self, source: str) -> str:
        """The column's name in the table."""
        return self.contract.by_source[source].name

    def require(self, sources: Iterable[str]) -> None:
        """Refuse a table that lacks what the proof goes by: in its contract, or on disk, where it may be older."""
        if missing := [source for source in dict.fromkeys(sources) if not self.has(source)]:
            columns = ", ".join(map(repr, missing))
            raise NotReconcilable(
                f"table {self.contract.name} has no column from {columns}. A proof needs of the facts the topic, "
                f"partition and offset of each message and the natural keys as sent, of the rejects the first three; "
                f"their names are free. Add to the table's contract: [[column]], name = …, type = …, "
                f'from = "{missing[0]}". Rows written before have null there, so begin with a new table.'
            )
        names = set(self._dataset.schema.names)
        if absent := [column.name for column in self.contract.columns if column.name not in names]:
            raise NotReconcilable(
                f"the table at {self.uri} has no column {', '.join(absent)}, which the contract {self.contract.name} "
                f"names. Run the job once: it adds them. Or set contracts.folder to the contracts it ran with."
            )

    def batches(self, sources: Sequence[str], where: Any = None) -> Iterator[pa.RecordBatch]:
        """The columns from these sources, batch by batch."""
        columns = {source: ds.field(self.name(source)) for source in sources}
        mine = self._mine if where is None else self._mine & where
        yield from self._dataset.to_batches(columns=columns, filter=mine, batch_size=_BATCH_ROWS)

    def distinct(self, sources: Sequence[str]) -> pa.Table:
        """The distinct rows of these columns; `ROWS` says how many there are of each."""
        seen = self._no_rows(sources)
        fresh: list[pa.Table] = []
        for batch in self.batches(sources):
            rows = pa.table(batch).append_column(ROWS, pa.repeat(pa.scalar(1, pa.int64()), batch.num_rows))
            fresh.append(_counted(rows, sources))
            # Merging goes through all that was seen before, so it waits until as much has come anew.
            if sum(map(len, fresh)) > max(_MERGE_ROWS, len(seen)):
                seen, fresh = _counted(pa.concat_tables([seen, *fresh]), sources), []
        return _counted(pa.concat_tables([seen, *fresh]), sources)

    def history(self) -> list[dict[str, Any]]:
        """Its commits, the newest first."""
        return self._table.history()

    def _no_rows(self, sources: Sequence[str]) -> pa.Table:
        types = [(source, self.contract.by_source[source].type) for source in sources]
        return pa.schema([*types, (ROWS, pa.int64())]).empty_table()

    @property
    def _mine(self) -> Any:
        """Several applications may write to one table, each its own reading of the same messages."""
        if not self.has("job.application"):
            return pc.scalar(True)
        return ds.field(self.name("job.application")) == self._settings.job.name

    @cached_property
    def _dataset(self) -> Any:
        return self._table.to_pyarrow_dataset()

    @cached_property
    def _table(self) -> DeltaTable:
        try:
            return DeltaTable(self.uri, storage_options=self._settings.warehouse.storage_options or None)
        except TableNotFoundError as error:
            raise NotReconcilable(
                f"there is no Delta table at {self.uri}. Has the job run with this warehouse.path?"
            ) from error


def _counted(rows: pa.Table, sources: Sequence[str]) -> pa.Table:
    return rows.group_by(list(sources)).aggregate([(ROWS, "sum")]).rename_columns([*sources, ROWS])
