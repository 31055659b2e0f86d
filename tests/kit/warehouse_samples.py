"""Tables, rows and batches that the tests of the warehouse share."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from pipeline.config import settings
from pipeline.config.contracts import TableColumn, TableContract
from pipeline.warehouse.files import table_files
from pipeline.warehouse.port import Batch, FileAction

UTC = timezone.utc
APPLICATION = "a job's name / ü"

TYPES = {
    "day": pa.date32(),
    "shop": pa.string(),
    "number": pa.int64(),
    "pieces": pa.int32(),
    "price": pa.decimal128(18, 2),
    "vast": pa.decimal128(38, 10),
    "weight": pa.float64(),
    "text": pa.string(),
    "raw": pa.binary(),
    "flag": pa.bool_(),
    "born": pa.date32(),
    "at": pa.timestamp("us", tz="UTC"),
}


def contract(name: str = "facts", partition_by: Sequence[str] = ("day", "shop"), **types: pa.DataType) -> TableContract:
    """A table of the given columns, or of one of each type."""
    columns = tuple(TableColumn(n, t, f"sale.{n}", f"The {n}: 'so' \\ it is.") for n, t in (types or TYPES).items())
    return TableContract(name, columns, tuple(partition_by))


FACTS = contract()
REJECTS = contract("rejects", ["day"], day=pa.date32(), reason=pa.string(), raw=pa.binary())


def fact(number: int | None = None, **values: Any) -> dict[str, Any]:
    return {
        "day": date(2026, 11, 18),
        "shop": "S1",
        "number": number,
        "pieces": 3,
        "price": Decimal("-12.30"),
        "vast": Decimal("1234567890123456789012345678.0123456789"),
        "weight": 1.5,
        "text": "grün 🌲",
        "raw": b"\x00\xff",
        "flag": True,
        "born": date(1969, 12, 31),
        "at": datetime(2026, 11, 18, 11, 6, 40, 3616, UTC),
        **values,
    }


def reject(reason: str) -> dict[str, Any]:
    return {"day": date(2026, 11, 18), "reason": reason, "raw": b"{"}


def rows_of(table: TableContract, rows: Sequence[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), table.schema)


def warehouse_settings(folder: Path, writer: str = "arrow", **more: Any) -> settings.WarehouseSettings:
    return settings.WarehouseSettings(path=str(folder), writer=writer, facts="facts", rejects="rejects", **more)


def written(
    where: settings.WarehouseSettings, table: TableContract, *windows: Sequence[dict[str, Any]], attempt: str = "1"
) -> list[FileAction]:
    """What a worker does: windows of rows into files."""
    files = table_files(where, table, APPLICATION, attempt)
    for window in windows:
        files.write(rows_of(table, window))
    return files.close()


def batch_of(
    where: settings.WarehouseSettings, batch: int, numbers: Sequence[int], rejects: Sequence[str] = ()
) -> Batch:
    facts = written(where, FACTS, [fact(number) for number in numbers]) if numbers else []
    sides = written(where, REJECTS, [reject(reason) for reason in rejects]) if rejects else []
    return Batch(batch, facts, {"rejects": sides}, {"offsets": {"sales/0": batch}})


def create(where: settings.WarehouseSettings, *tables: TableContract, **properties: str) -> None:
    """Tables as the contract says, without Spark."""
    for table in tables or (FACTS, REJECTS):
        DeltaTable.create(
            f"{where.path}/{table.name}",
            table.schema,
            partition_by=list(table.partition_by),
            configuration=properties or None,
        )


def column(where: settings.WarehouseSettings, table: str, name: str) -> list[Any]:
    """The sorted values of a column as deltalake reads them."""
    values = DeltaTable(f"{where.path}/{table}").to_pyarrow_table(columns=[name])[name].to_pylist()
    return sorted(values, key=lambda value: (value is not None, value))
