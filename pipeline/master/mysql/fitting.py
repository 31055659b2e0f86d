"""Whether a master table fits the dimension's contract; if not, a sentence for each way in which it does not."""

from __future__ import annotations

import pyarrow as pa

from pipeline.config.contracts import DimensionContract, KeyColumn
from pipeline.master.mysql.catalogue import BINARIES, INTEGERS, MOMENTS, TEXTS, Catalogue, Column, is_unique_over

_KEY_FAMILIES = {"int64": INTEGERS, "uint64": INTEGERS, "string": TEXTS, "binary": BINARIES}


def violations(catalogue: Catalogue, dimension: DimensionContract) -> list[str]:
    """Every way in which the columns are not what the contract says: a sentence each, with the remedy."""
    table = dimension.table
    if not catalogue.columns:
        return [
            f"{table}: there is no such table in the database, or the user may not see it. Name the right one in the "
            f"contract of dimension {dimension.name} (`table`), set master.database, or grant SELECT (on the embedded "
            "database `millrace up --config` does)."
        ]
    keys = [part.column for part in dimension.natural_key]
    missing = [
        f"{table}.{name}: the contract of dimension {dimension.name} names this column, but the table has "
        f"{', '.join(column.name for column in catalogue.columns.values())}. Correct the contract or the table."
        for name in [*keys, dimension.surrogate_key, dimension.updated_at, *dimension.attributes]
        if catalogue.column(name) is None
    ]
    if missing:
        return missing
    broken = [sentence for part in dimension.natural_key if (sentence := _key_violation(catalogue, table, part))]
    for name, families, why in (
        (dimension.surrogate_key, INTEGERS, "a surrogate key must be an integer"),
        (dimension.updated_at, MOMENTS, "updated_at must be a TIMESTAMP or a DATETIME in UTC"),
    ):
        column = catalogue.columns[name.lower()]
        if column.data_type not in families:
            broken.append(f"{table}.{name} is {column.column_type.upper()}, but {why}. Name another column.")
    broken += [
        f"{table}.{name} is {column.column_type.upper()}, which cannot be read as {kind}. Correct the contract's type."
        for name, kind in dimension.attributes.items()
        if not _readable_as(column := catalogue.columns[name.lower()], kind)
    ]
    return broken


def no_unique_index(catalogue: Catalogue, dimension: DimensionContract) -> list[str]:
    """What to say if look-ups cannot find a key, or not only one row of it."""
    names = [part.column for part in dimension.natural_key]
    if _proves_one_row(catalogue, names):
        return []
    table, columns = dimension.table, ", ".join(names)
    if catalogue.is_view:
        return [_no_view(dimension)]
    return [
        f"{table} has no usable unique index on exactly ({columns}); look-ups would read the whole table, and a "
        f"key could have two rows. Add one: ALTER TABLE {table} ADD UNIQUE INDEX ({columns})."
    ]


def _proves_one_row(catalogue: Catalogue, names: list[str]) -> bool:
    index = catalogue.key_index(names)
    return index is not None and is_unique_over(index, names)


def no_scan_index(catalogue: Catalogue, dimension: DimensionContract) -> list[str]:
    """What to say if a scan could not go on where it stopped."""
    if catalogue.scan_index([part.column for part in dimension.natural_key]):
        return []
    if catalogue.is_view:
        return [_no_view(dimension)]
    return [
        f"{dimension.table} has no primary key and no usable unique index without nullable columns; a scan could not "
        f"go on where it stopped. Add one: ALTER TABLE {dimension.table} ADD COLUMN id BIGINT NOT NULL AUTO_INCREMENT "
        "PRIMARY KEY."
    ]


def _no_view(dimension: DimensionContract) -> str:
    names = ", ".join(part.column for part in dimension.natural_key)
    return (
        f"{dimension.table} is a view, and a view has no index of its own to look up or to scan by. Name the table "
        f"behind it in the contract of dimension {dimension.name} (`table`), or keep a table filled from the view, "
        f"with a unique index on ({names})."
    )


def without_unique_index(catalogue: Catalogue, dimension: DimensionContract) -> list[str]:
    """What it means for a join that does without."""
    names = [part.column for part in dimension.natural_key]
    if _proves_one_row(catalogue, names):
        return []
    table, columns = dimension.table, ", ".join(names)
    if dimension.validity:
        names.append(dimension.validity.begins)
        if _proves_one_row(catalogue, names):
            return []
        columns = ", ".join(names)
        return [
            f"{table} has no usable unique index on exactly ({columns}): of a key's rows that begin at one moment the "
            f"one with the greatest surrogate key counts. ALTER TABLE {table} ADD UNIQUE INDEX ({columns}) makes sure "
            f"that there is only one."
        ]
    return [
        f"{table} has no usable unique index on exactly ({columns}): a key with several rows gives a fact for each. "
        f"If it has one, ALTER TABLE {table} ADD UNIQUE INDEX ({columns}) makes sure of it, and the joins faster."
    ]


def notes(catalogue: Catalogue, dimension: DimensionContract) -> list[str]:
    """What is allowed but worth knowing."""
    natural = "Set the type of this natural key, and of the sale's field, to uint64, which holds it."
    surrogate = "Surrogate keys are 64-bit integers with a sign."
    remedies = {part.column: natural for part in dimension.natural_key if part.type == "int64"}
    remedies[dimension.surrogate_key] = surrogate
    return [
        f"{dimension.table}.{name} is {column.column_type.upper()}: a value over 9,223,372,036,854,775,807 would stop "
        f"the job. {remedy}"
        for name, remedy in remedies.items()
        if (column := catalogue.column(name)) and column.data_type == "bigint" and _is_unsigned(column)
    ]


def _is_unsigned(column: Column) -> bool:
    return "unsigned" in column.column_type


def _key_violation(catalogue: Catalogue, table: str, part: KeyColumn) -> str | None:
    column = catalogue.columns[part.column.lower()]
    if column.data_type in _KEY_FAMILIES[part.type] and (part.type != "uint64" or _is_unsigned(column)):
        return None
    fitting = [kind for kind, families in _KEY_FAMILIES.items() if column.data_type in families]
    remedy = f"Set its type to {fitting[0]}." if fitting else f"A key of this kind needs {_WANTED[part.type]}."
    return f"{table}.{part.column} is {column.column_type.upper()}, but the contract calls it {part.type}. {remedy}"


_WANTED = {
    "int64": "an integer column",
    "uint64": "an unsigned integer column",
    "string": "CHAR or VARCHAR",
    "binary": "BINARY or VARBINARY",
}


def _readable_as(column: Column, kind: pa.DataType) -> bool:
    """Whether every value of the column has a fair chance to be one of the contract's type."""
    family = column.data_type
    if pa.types.is_integer(kind):
        return family in INTEGERS
    if pa.types.is_boolean(kind):
        return family in {"tinyint", "bit"}
    if pa.types.is_floating(kind):
        return family in INTEGERS | {"float", "double", "decimal"}
    if pa.types.is_decimal(kind):
        return family in INTEGERS | {"decimal"}
    if pa.types.is_timestamp(kind):
        return family in MOMENTS
    if pa.types.is_date(kind):
        return family == "date"
    return True  # anything can be read as text or as bytes
