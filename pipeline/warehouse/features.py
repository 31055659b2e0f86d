"""Which tables the arrow writer may append to. `deltalake` itself would silently break some of a table's promises."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.config.contracts import TableContract
from pipeline.errors import WarehouseRefused
from pipeline.warehouse.log import TableDescription
from pipeline.warehouse.statistics import INDEXED_COLUMNS

# Features that ask nothing of an append, or something only if the table makes use of them, which is checked below.
# deletionVectors: only deletes make them. changeDataFeed: readers take an added file for inserts.
_HARMLESS = {"appendOnly", "changeDataFeed", "deletionVectors", "timestampNtz", "v2Checkpoint"}
_CHECKED = {"invariants", "checkConstraints", "columnMapping", "generatedColumns"}


def refuse_what_arrow_cannot_honour(found: TableDescription, contract: TableContract, uri: str) -> None:
    if reasons := list(_demands(found, contract)):
        raise WarehouseRefused(
            f"{uri}: the arrow writer cannot honour {'; '.join(reasons)}. "
            f"Set warehouse.writer = spark, or take this from the table."
        )


def _demands(found: TableDescription, contract: TableContract) -> Iterator[str]:
    for feature in sorted(found.features - _HARMLESS - _CHECKED):
        yield f"the table feature {feature}"
    for name, value in sorted(found.properties.items()):
        if name.startswith("delta.constraints."):
            yield f"the CHECK constraint {name.removeprefix('delta.constraints.')} ({value})"
    if (mode := found.properties.get("delta.columnMapping.mode", "none")) != "none":
        yield f"column mapping by {mode}"
    if formats := found.properties.get("delta.universalFormat.enabledFormats"):
        yield f"the universal format {formats}"
    for name, column in found.columns.items():
        if "delta.generationExpression" in column.metadata:
            yield f"the generated column {name} ({column.metadata['delta.generationExpression']})"
        if "delta.invariants" in column.metadata:
            yield f"the invariant of column {name}"
        if "__CHAR_VARCHAR_TYPE_STRING" in column.metadata:
            yield f"the length limit of column {name} ({column.metadata['__CHAR_VARCHAR_TYPE_STRING']})"
    for name in not_null(found) & set(_without_null_count(contract)):
        yield f"NOT NULL on column {name}, which is behind the {INDEXED_COLUMNS} columns with statistics"


def not_null(found: TableDescription) -> set[str]:
    """Columns whose nulls the committer must refuse: Delta leaves that to the writer."""
    return {name for name, column in found.columns.items() if not column.nullable}


def _without_null_count(contract: TableContract) -> list[str]:
    return [name for name in contract.schema.names if name not in contract.partition_by][INDEXED_COLUMNS:]
