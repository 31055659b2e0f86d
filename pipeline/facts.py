"""4 Enriched sales to fact columns, rejected messages to reject columns. Pure: columns in, columns out.

A warehouse table's contract picks from the columns of the journey; see `columns.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from pipeline import columns
from pipeline.config.contracts import TableContract
from pipeline.errors import BadContract


def to_columns(table: TableContract, source: pa.Table, application: str, batch: int) -> pa.Table:
    """The rows of a warehouse table, with exactly the contract's columns and types."""
    constant = {columns.APPLICATION: application, columns.BATCH: batch}
    picked = []
    for column in table.columns:
        if column.source in constant:
            picked.append(pa.repeat(pa.scalar(constant[column.source], column.type), len(source)))
        elif column.source in columns.FACT:
            picked.append(pa.nulls(len(source), column.type))  # of the fact's later life
        elif column.source == columns.DATE:
            picked.append(pc.cast(source[columns.TIMESTAMP], pa.date32()))
        else:
            picked.append(source[column.source])
    return pa.Table.from_arrays(picked, schema=table.schema)


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
    dimension = columns.origin(source)
    dimensions = dict.fromkeys(map(columns.origin, available))
    if dimension in dimensions or dimension in columns.OTHERS:
        return f"{source!r}, which is not there. There are: {', '.join(sorted(available))}."
    named = ", ".join(name for name in dimensions if name not in columns.OTHERS)
    return (
        f"dimension {dimension}, and the settings name {named or 'no dimension here'}. Name it too, with "
        f"[dimensions.{dimension}] in the settings file, or put a contract of this table without the column into "
        "contracts.folder."
    )
