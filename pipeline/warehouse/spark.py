"""The second committer: Spark appends the workers' staged files, so a table may ask for all that Delta knows."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Sequence
from functools import reduce
from itertools import groupby
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyarrow.fs import FileSelector

from pipeline.config import settings
from pipeline.config.contracts import TableContract
from pipeline.errors import WarehouseRefused
from pipeline.warehouse import record, storage, tables
from pipeline.warehouse.committer import refuse_known_batch, version_made
from pipeline.warehouse.port import FileAction
from pipeline.warehouse.record import CommitRecord
from pipeline.warehouse.tables import Table

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


class SparkCommitter:
    """Workers write to a staging folder beside the tables; Spark copies from there in one commit."""

    writer = "spark"

    def __init__(self, spark: SparkSession, warehouse: settings.WarehouseSettings, application: str) -> None:
        self._spark = spark
        self._warehouse = warehouse
        self._application = application

    def check(self, table: Table) -> None:
        tables.check(table.log.describe(), table.contract, table.log.uri)
        storage.make_folder(self._staging(table))

    def append(self, table: Table, files: Sequence[FileAction], made: CommitRecord) -> int:
        """One commit with the rows, and the batch as its transaction.

        Delta skips a transaction it has, and says nothing: only our token in the log proves that the commit is ours.
        """
        from pyspark.errors import PySparkException

        table.log.refresh()
        refuse_known_batch(table, made)
        try:
            self.commit(table, files, made)
        except (PySparkException, Py4JError):
            # Another driver may have committed the batch first, or Spark's answer was lost: the log tells.
            version = version_made(table, made)
            if version is None:
                raise
            return version
        version = version_made(table, made)
        if version is None:
            raise WarehouseRefused(
                f"{table.log.uri}: Spark says it committed batch {made.batch}, but the log does not have it. Is "
                f"warehouse.path the same place for Spark (spark.conf) and for warehouse.storage_options?"
            )
        return version

    def commit(self, table: Table, files: Sequence[FileAction], made: CommitRecord) -> None:
        """One attempt."""
        self._rows(table, files).write.format("delta").mode("append").options(
            txnAppId=made.application, txnVersion=made.batch, userMetadata=record.encode(made)
        ).save(table.log.uri)

    def forget(self, table: Table, files: Iterable[FileAction]) -> None:
        staging = storage.filesystem(self._staging(table), self._warehouse.storage_options)
        for file in files:
            with contextlib.suppress(OSError):  # what stays is deleted at the next start
                staging.delete_file(file.path)

    def forget_all(self, table: Table) -> None:
        staging = storage.filesystem(self._staging(table), self._warehouse.storage_options)
        for found in staging.get_file_info(FileSelector("", recursive=True)):
            if found.is_file:
                with contextlib.suppress(OSError):
                    staging.delete_file(found.path)

    def _rows(self, table: Table, files: Sequence[FileAction]) -> DataFrame:
        """The staged rows with the values of their partition, which are not in the files."""
        partitions = groupby(sorted(files, key=_partition), key=_partition)
        parts = [self._rows_of(table.contract, self._staging(table), list(same)) for _, same in partitions]
        return reduce(lambda one, other: one.unionByName(other), parts or [self._nothing(table.contract)])

    def _nothing(self, contract: TableContract) -> DataFrame:
        columns = ", ".join(f"{tables.quoted(c.name)} {tables.sql_type(c.type)}" for c in contract.columns)
        return self._spark.createDataFrame([], columns)

    def _rows_of(self, contract: TableContract, staging: str, files: list[FileAction]) -> DataFrame:
        from pyspark.sql import functions

        def column(name: str, sql_type: str) -> Column:
            if name in contract.partition_by:
                return functions.lit(files[0].partition_values[name]).cast(sql_type).alias(name)
            return functions.col(tables.quoted(name))

        columns = [(c.name, tables.sql_type(c.type)) for c in contract.columns]
        inside = ", ".join(f"{tables.quoted(n)} {kind}" for n, kind in columns if n not in contract.partition_by)
        paths = [_literal(f"{staging}/{file.path}") for file in files]
        # A recursive look-up keeps Spark from guessing columns from the names of folders.
        read = self._spark.read.schema(inside).option("recursiveFileLookup", "true").parquet(*paths)
        return read.select(*(column(name, kind) for name, kind in columns))

    def _staging(self, table: Table) -> str:
        return storage.staging_uri(self._warehouse, self._application, table.contract.name)


def _partition(file: FileAction) -> list[tuple[str, bool, str]]:
    return [(name, value is None, value or "") for name, value in file.partition_values.items()]


def _literal(path: str) -> str:
    """Spark takes paths for patterns."""
    return re.sub(r"([\\*?{}\[\]])", r"\\\1", path)
