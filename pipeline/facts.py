"""4 Served sales to fact columns, rejected messages to reject columns. Pure: columns in, columns out.

All columns of a sale's journey live in one table, named by where they come from: `message.offset`, `sale.quantity`,
`product.surrogate_key`, `reject.reason`. A warehouse table's contract picks from them.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.config.contracts import TableContract
from pipeline.errors import BadContract

MESSAGE = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("value", pa.binary()),
    ]
)
REJECT = {"reject.reason": pa.string(), "reject.detail": pa.string()}
JOB = {"job.application": pa.string(), "job.batch": pa.int64()}


def message_columns() -> dict[str, pa.DataType]:
    """The columns every message has, as contracts name them."""
    return {f"message.{field.name}": field.type for field in MESSAGE} | {"message.date": pa.date32()}


def to_columns(table: TableContract, source: pa.Table, application: str, batch: int) -> pa.Table:
    """The rows of a warehouse table, with exactly the contract's columns and types."""
    constant = {"job.application": application, "job.batch": batch}
    columns = []
    for column in table.columns:
        if column.source in constant:
            columns.append(pa.repeat(pa.scalar(constant[column.source], column.type), len(source)))
        elif column.source == "message.date":
            columns.append(pc.cast(source["message.timestamp"], pa.date32()))
        else:
            columns.append(source[column.source])
    return pa.Table.from_arrays(columns, schema=table.schema)


def check(table: TableContract, available: Mapping[str, pa.DataType]) -> None:
    """Refuse, before the first batch, a table contract that asks for what no sale carries."""
    for column in table.columns:
        found = available.get(column.source)
        if found is None:
            raise BadContract(
                f"table {table.name}: column {column.name} is from {_not_there(column.source, available)}"
            )
        if found != column.type:
            raise BadContract(
                f"table {table.name}: column {column.name} has type {column.type}, but {column.source} is {found}. "
                f"Change the type in the table's contract, or use another name for a new column."
            )


def _not_there(source: str, available: Mapping[str, pa.DataType]) -> str:
    """The end of a sentence: what the source would be, and what there is."""
    dimension = source.partition(".")[0]
    dimensions = dict.fromkeys(name.partition(".")[0] for name in available)
    if dimension in dimensions or dimension == "reject":
        return f"{source!r}, which is not there. There are: {', '.join(sorted(available))}."
    named = ", ".join(name for name in dimensions if name not in ("sale", "message", "job", "reject"))
    return (
        f"dimension {dimension}, and the settings name {named or 'no dimension here'}. Name it too, with "
        f"[dimensions.{dimension}] in the settings file, or put a contract of this table without the column into "
        "contracts.folder."
    )
