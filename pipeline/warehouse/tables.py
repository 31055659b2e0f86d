"""What a warehouse table must look like: created from its contract, or checked against it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Field, Schema
from deltalake.exceptions import DeltaError
from deltalake.schema import PrimitiveType
from pyarrow.fs import FileSelector

from pipeline.config.contracts import TableColumn, TableContract
from pipeline.errors import WarehouseRefused
from pipeline.warehouse.log import TableDescription, TableLog
from pipeline.warehouse.storage import filesystem, is_local, make_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROPERTIES = {
    # Each batch is a commit. Readers replay those since the last checkpoint, and so does the next commit.
    "delta.checkpointInterval": "20",
    # Delta's 30 days of batches every 2 s would be 1.3 million files in one folder, which commits list.
    "delta.logRetentionDuration": "interval 7 days",
}

_LOG = "_delta_log"
_NAMES = {  # Arrow's type, Delta's name in the schema, and in SQL
    pa.string(): ("string", "STRING"),
    pa.binary(): ("binary", "BINARY"),
    pa.int32(): ("integer", "INT"),
    pa.int64(): ("long", "BIGINT"),
    pa.float64(): ("double", "DOUBLE"),
    pa.bool_(): ("boolean", "BOOLEAN"),
    pa.date32(): ("date", "DATE"),
    pa.timestamp("us", tz="UTC"): ("timestamp", "TIMESTAMP"),
}


@dataclass(frozen=True)
class Table:
    """A warehouse table that is as its contract says."""

    contract: TableContract
    log: TableLog


def open_table(
    uri: str, contract: TableContract, storage_options: dict[str, str]
) -> tuple[Table, Sequence[TableColumn]]:
    """The table, created if there is none, and the contract's columns that it lacks."""
    if not TableLog.exists(uri, storage_options):
        _create(uri, contract, storage_options)
    table = Table(contract, TableLog(uri, storage_options))
    return table, check(table.log.describe(), contract, uri)


def check(found: TableDescription, contract: TableContract, uri: str) -> list[TableColumn]:
    """Refuse a table that contradicts the contract. Returns the columns that may be added to it."""
    _check_partitioning(found, contract, uri)
    by_lower_case = {name.lower(): name for name in found.columns}
    missing = []
    for column in contract.columns:
        twin = by_lower_case.get(column.name.lower())
        if twin is None:
            missing.append(column)
        elif twin != column.name:
            raise WarehouseRefused(
                f"{uri}: the table has a column {twin}, the contract {column.name}; Delta takes them for the same. "
                f"Write it the same way in the contract of {contract.name}."
            )
        elif found.columns[twin].type != delta_type(column.type):
            raise WarehouseRefused(
                f"{uri}: column {twin} is {found.columns[twin].type}, the contract of {contract.name} needs "
                f"{delta_type(column.type)}. Correct the contract, or name a new table in the settings."
            )
    for name in found.columns.keys() - contract.schema.names:
        if not found.columns[name].nullable:
            raise WarehouseRefused(
                f"{uri}: column {name} is NOT NULL, but the contract of {contract.name} does not know it, so nothing "
                f"would be written there. ALTER TABLE … ALTER COLUMN {name} DROP NOT NULL, or add it to the contract."
            )
    if "delta.setTransactionRetentionDuration" in found.properties:
        raise WarehouseRefused(
            f"{uri}: delta.setTransactionRetentionDuration is set, so the table would forget which batches it has, and "
            f"a replay would write them twice. ALTER TABLE … UNSET TBLPROPERTIES it."
        )
    return missing


def _check_partitioning(found: TableDescription, contract: TableContract, uri: str) -> None:
    if found.partition_by != contract.partition_by:
        raise WarehouseRefused(
            f"{uri}: the table is partitioned by {_list(found.partition_by)}, the contract of {contract.name} needs "
            f"{_list(contract.partition_by)}. Correct `partition_by` in the contract, or name a new table in the "
            f"settings."
        )


def _list(columns: Sequence[str]) -> str:
    return f"({', '.join(columns)})"


def refuse_unmakeable(uri: str, contract: TableContract, storage_options: dict[str, str]) -> None:
    """Refuse what `open_table` would of a table that is not there yet. Makes nothing."""
    _refuse_names(contract, uri)
    if not is_local(uri) or Path(uri).is_dir():
        _refuse_other_files(contract, uri, storage_options)


def _create(uri: str, contract: TableContract, storage_options: dict[str, str]) -> None:
    """By deltalake: the first batch need not wait for Spark's first table."""
    _refuse_names(contract, uri)
    make_folder(uri)
    _refuse_other_files(contract, uri, storage_options)
    fields = [
        Field(
            c.name,
            PrimitiveType(delta_type(c.type)),
            nullable=True,
            metadata={"comment": c.meaning} if c.meaning else None,
        )
        for c in contract.columns
    ]
    try:
        DeltaTable.create(
            uri,
            Schema(fields),
            mode="error",
            commit_properties=CommitProperties(max_commit_retries=0),  # a table that is made twice has a second version
            partition_by=list(contract.partition_by),
            configuration=PROPERTIES,
            storage_options=storage_options,
        )
    except DeltaError:
        if not TableLog.exists(uri, storage_options):  # else another job has made it in the same moment
            raise


def _refuse_names(contract: TableContract, uri: str) -> None:
    """Names that Spark could not read again: Delta takes them only with column mapping."""
    for column in contract.columns:
        if found := set(column.name) & set(" ,;{}()\n\t="):
            raise WarehouseRefused(
                f"{uri}: Delta cannot create {contract.name}: column {column.name!r} has {sorted(found)} in its name. "
                f"Name it without blanks and without any of ,;{{}}()= in the table's contract."
            )


def _refuse_other_files(contract: TableContract, uri: str, storage_options: dict[str, str]) -> None:
    folder = filesystem(uri, storage_options)
    there = [
        found
        for found in folder.get_file_info(FileSelector("", allow_not_found=True))
        if found.base_name[:1] != "." and found.base_name != _LOG
    ]
    # A log without a version is one that another job is about to begin.
    log = folder.get_file_info(FileSelector(_LOG, allow_not_found=True))
    there += [found for found in log if found.base_name[:1].isdigit()]
    if there and not TableLog.exists(uri, storage_options):
        raise WarehouseRefused(
            f"{uri}: Delta cannot create {contract.name}: the folder is not empty, but not a Delta table: "
            f"{there[0].path} is in it. Move what is there away, or name another warehouse.path."
        )


def add_columns(spark: SparkSession, table: Table, columns: Sequence[TableColumn]) -> None:
    """A new dimension brings new columns; facts written before have null there."""
    definitions = ", ".join(f"{quoted(c.name)} {sql_type(c.type)} COMMENT {_literal(c.meaning)}" for c in columns)
    with _delta_refusing(f"add {', '.join(c.name for c in columns)} to {table.contract.name}", table.log.uri):
        spark.sql(f"ALTER TABLE delta.{quoted(table.log.uri)} ADD COLUMNS ({definitions})")
    table.log.refresh()


@contextmanager
def _delta_refusing(what: str, uri: str) -> Iterator[None]:
    """Delta's own reason is the best one: a name it does not take, a folder with other files in it, …"""
    from pyspark.errors import AnalysisException

    try:
        yield
    except AnalysisException as error:
        raise WarehouseRefused(f"{uri}: Delta cannot {what}: {error}") from error


def delta_type(kind: pa.DataType) -> str:
    """The type's name in a Delta schema."""
    return f"decimal({kind.precision},{kind.scale})" if pa.types.is_decimal(kind) else _NAMES[kind][0]


def sql_type(kind: pa.DataType) -> str:
    """The type's name in Spark SQL."""
    return delta_type(kind) if pa.types.is_decimal(kind) else _NAMES[kind][1]


def quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
