"""The worker's side: appends windows of rows to Parquet files and describes them. No Spark in here."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections import OrderedDict
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.config import settings
from pipeline.config.contracts import TableContract
from pipeline.warehouse import disk, partitions, statistics
from pipeline.warehouse.faults import Place
from pipeline.warehouse.places import told
from pipeline.warehouse.port import FileAction
from pipeline.warehouse.storage import filesystem, folder_of_files

MOST_OPEN_FILES = 16  # an open file on an object store buffers about 10 MB
_SAMPLE = 4096


def table_files(
    warehouse: settings.WarehouseSettings, contract: TableContract, application: str, attempt: str
) -> TableFiles:
    """The files one task attempt writes for a table, where the settings want them."""
    folder = folder_of_files(warehouse, application, contract.name)
    return TableFiles(folder, contract, warehouse.storage_options, warehouse.compression, attempt)


class TableFiles:
    """Parquet files of one table, one open per partition; every window becomes a row group.

    Nothing here is visible to a reader: files count once the driver commits their actions. Those of a failed attempt
    are deleted by `abort`, or by VACUUM if the worker died.
    """

    def __init__(
        self,
        folder: str,
        contract: TableContract,
        storage_options: dict[str, str],
        compression: str,
        attempt: str,
        most_open: int = MOST_OPEN_FILES,
    ) -> None:
        partitions.check(contract)
        self.contract = contract
        self._place = Place("", folder, storage_options)
        with told(self._place):
            self._filesystem = filesystem(folder, storage_options)
        self._schema = pa.schema([(c.name, c.type) for c in contract.columns if c.name not in contract.partition_by])
        self._compression = compression
        # A restarted driver may count its attempts from the start: only a random part keeps a committed file safe.
        self._name = f"{partitions.escaped(attempt)}-{uuid.uuid4().hex[:16]}"
        self._most_open = most_open
        self._open: OrderedDict[tuple[str | None, ...], _OpenFile] = OrderedDict()  # least recently used first
        self._paths: list[str] = []
        self._finished: list[FileAction] = []

    def write(self, rows: pa.Table) -> None:
        """Append rows that have exactly the contract's columns."""
        if not rows.schema.equals(self.contract.schema, check_metadata=False):
            raise TypeError(f"table {self.contract.name}: needs {self.contract.schema}, not {rows.schema}")
        with told(self._place):
            for values, inside in partitions.divided(rows, self.contract.partition_by):
                self._file_of(values, inside).write(inside)

    def close(self) -> list[FileAction]:
        """Finish all files, and have them on the disk. The driver commits the actions."""
        with told(self._place):
            while self._open:
                self._finish_oldest()
            disk.keep_files(self._place.folder, [file.path for file in self._finished])
        return self._finished

    def abort(self) -> None:
        """Delete what was written. What cannot be deleted stays as an orphan, which no reader sees."""
        while self._open:
            with contextlib.suppress(Exception):  # the error that ended the attempt is the one to report
                self._finish_oldest()
        for path in self._paths:
            with contextlib.suppress(OSError):
                self._filesystem.delete_file(path)
        self._paths, self._finished = [], []

    def _file_of(self, values: partitions.Values, first_rows: pa.Table) -> _OpenFile:
        key = tuple(values.values())
        if key not in self._open:
            if len(self._open) >= self._most_open:
                self._finish_oldest()
            file = f"part-{len(self._paths):05d}-{self._name}.{self._compression}.parquet"
            path = partitions.folder(values) + file
            self._paths.append(path)
            sink = self._filesystem.open_output_stream(path)
            floating = statistics.FloatingColumns(self._schema)
            self._open[key] = _OpenFile(path, values, sink, self._writer(sink, first_rows, floating), floating)
        self._open.move_to_end(key)
        return self._open[key]

    def _writer(self, sink: Any, first_rows: pa.Table, floating: statistics.FloatingColumns) -> Any:
        return pq.ParquetWriter(
            sink,
            self._schema,
            compression=self._compression,
            use_dictionary=_repeating(first_rows, without=floating.names),
            write_statistics=[name for name in self._schema.names if name not in floating.names],
            store_decimal_as_integer=True,  # as Spark does: 8 bytes for decimal(18,2)
            store_schema=False,
        )

    def _finish_oldest(self) -> None:
        _, file = self._open.popitem(last=False)
        self._finished.append(file.finish())


class _OpenFile:
    def __init__(
        self, path: str, values: partitions.Values, sink: Any, writer: Any, floating: statistics.FloatingColumns
    ) -> None:
        self._path = path
        self._values = values
        self._sink = sink
        self._writer = writer
        self._floating = floating

    def write(self, rows: pa.Table) -> None:
        self._floating.add(rows)
        self._writer.write_table(rows)

    def finish(self) -> FileAction:
        try:
            self._writer.close()
            size = self._sink.tell()
        finally:
            self._sink.close()
        metadata = self._writer.writer.metadata
        return FileAction(
            path=self._path,
            size=size,
            partition_values=self._values,
            modification_time=time.time_ns() // 1_000_000,
            rows=metadata.num_rows,
            stats=statistics.of_file(metadata, self._writer.schema, self._floating),
        )


def _repeating(rows: pa.Table, without: list[str]) -> list[str]:
    """The columns whose values repeat: a dictionary of any other column takes time and saves no space."""
    sample = rows.slice(0, _SAMPLE)
    most = max(100, len(sample) // 2)
    names = [name for name in rows.column_names if name not in without]
    return [name for name in names if pc.count_distinct(sample[name], mode="all").as_py() <= most]
