"""What the server says about a master table, and whether that fits the dimension's contract."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from pipeline.contracts import DimensionContract, KeyColumn
from pipeline.errors import BadContract
from pipeline.master.drivers import Row
from pipeline.master.sql import KeyPart, Statements, text

Query = Callable[[str, str], Sequence[Row]]  # a statement and its purpose

_INTEGERS = {"tinyint", "smallint", "mediumint", "int", "bigint"}
_TEXTS = {"char", "varchar"}
_BINARIES = {"binary", "varbinary"}
_MOMENTS = {"timestamp", "datetime"}
_KEY_FAMILIES = {"int64": _INTEGERS, "string": _TEXTS, "binary": _BINARIES}


@dataclass(frozen=True)
class Column:
    """One column, from information_schema."""

    name: str
    data_type: str  # the family: bigint
    column_type: str  # in full: bigint(20) unsigned
    character_set: str
    collation: str
    is_nullable: str  # YES or NO


@dataclass(frozen=True)
class Index:
    """One usable unique index: a B-tree over whole columns."""

    name: str
    columns: tuple[str, ...]  # lower case, in the index's order


@dataclass(frozen=True)
class Catalogue:
    """A table as the server describes it. Column names are looked up without regard to case, as the server does."""

    columns: dict[str, Column]
    indexes: tuple[Index, ...]

    @classmethod
    def read(cls, query: Query, table: str) -> Catalogue:
        here = f"TABLE_SCHEMA = DATABASE() AND TABLE_NAME = {text(table)}"
        columns = query(
            "SELECT COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, CHARACTER_SET_NAME, COLLATION_NAME, IS_NULLABLE "
            f"FROM information_schema.COLUMNS WHERE {here} ORDER BY ORDINAL_POSITION",
            f"describing {table}",
        )
        parts = query(
            "SELECT INDEX_NAME, COLUMN_NAME, NON_UNIQUE, INDEX_TYPE, SUB_PART "
            f"FROM information_schema.STATISTICS WHERE {here} ORDER BY INDEX_NAME, SEQ_IN_INDEX",
            f"describing the indexes of {table}",
        )
        described = [Column(*map(_text, row)) for row in columns]
        return cls({column.name.lower(): column for column in described}, tuple(_unique_indexes(parts)))

    def column(self, name: str) -> Column | None:
        return self.columns.get(name.lower())

    def unique_index_over(self, names: Sequence[str]) -> Index | None:
        """A unique index on exactly these columns, the primary key first."""
        wanted = sorted(name.lower() for name in names)
        fitting = [index for index in self.indexes if sorted(index.columns) == wanted]
        return min(fitting, key=lambda index: index.name != "PRIMARY", default=None)

    def statements(self, dimension: DimensionContract) -> Statements:
        """The reads of this table. Fails with every violation of the contract if there is one."""
        if broken := violations(self, dimension):
            raise BadContract("\n".join(broken))
        keys = [self.columns[part.column.lower()] for part in dimension.natural_key]
        index = self.unique_index_over([key.name for key in keys])
        assert index is not None, "violations() looked for it"
        names = [key.name.lower() for key in keys]
        rest = [dimension.surrogate_key, dimension.updated_at, *dimension.attributes]
        return Statements(
            table=dimension.table,
            columns=(*(key.name for key in keys), *(self.columns[name.lower()].name for name in rest)),
            key=tuple(
                KeyPart(key.name, part.type, key.character_set, key.collation, key.is_nullable == "YES")
                for key, part in zip(keys, dimension.natural_key, strict=True)
            ),
            index=index.name,
            index_order=tuple(names.index(name) for name in index.columns),
        )


def violations(catalogue: Catalogue, dimension: DimensionContract) -> list[str]:
    """Every way in which the table is not what the contract says: a sentence each, with the remedy."""
    table = dimension.table
    if not catalogue.columns:
        return [
            f"{table}: there is no such table in the database, or the user may not see it. Name the right one in the "
            f"contract of dimension {dimension.name} (`table`), set master.database, or grant SELECT."
        ]
    keys = [part.column for part in dimension.natural_key]
    missing = [
        f"{table}.{name}: the contract of dimension {dimension.name} names this column, but the table has "
        f"{', '.join(column.name for column in catalogue.columns.values())}. Mend the contract or the table."
        for name in [*keys, dimension.surrogate_key, dimension.updated_at, *dimension.attributes]
        if catalogue.column(name) is None
    ]
    if missing:
        return missing
    broken = [sentence for part in dimension.natural_key if (sentence := _key_violation(catalogue, table, part))]
    for name, families, why in (
        (dimension.surrogate_key, _INTEGERS, "a surrogate key must be an integer"),
        (dimension.updated_at, _MOMENTS, "updated_at must be a TIMESTAMP or a DATETIME in UTC"),
    ):
        column = catalogue.columns[name.lower()]
        if column.data_type not in families:
            broken.append(f"{table}.{name} is {column.column_type.upper()}, but {why}. Name another column.")
    broken += [
        f"{table}.{name} is {column.column_type.upper()}, which cannot be read as {kind}. Mend the contract's type."
        for name, kind in dimension.attributes.items()
        if not _readable_as(column := catalogue.columns[name.lower()], kind)
    ]
    if catalogue.unique_index_over(keys) is None:
        columns = ", ".join(keys)
        broken.append(
            f"{table} has no usable unique index on exactly ({columns}); look-ups would read the whole table, and a "
            f"key could have two rows. Add one: ALTER TABLE {table} ADD UNIQUE INDEX ({columns})."
        )
    return broken


def notes(catalogue: Catalogue, dimension: DimensionContract) -> list[str]:
    """What is allowed but worth knowing."""
    names = [*(part.column for part in dimension.natural_key), dimension.surrogate_key]
    return [
        f"{dimension.table}.{name} is {column.column_type.upper()}: a value over 9,223,372,036,854,775,807 would stop "
        "the job, since keys are 64-bit integers with a sign."
        for name in names
        if (column := catalogue.column(name)) and column.data_type == "bigint" and "unsigned" in column.column_type
    ]


def _key_violation(catalogue: Catalogue, table: str, part: KeyColumn) -> str | None:
    column = catalogue.columns[part.column.lower()]
    if column.data_type in _KEY_FAMILIES[part.type]:
        return None
    fitting = [kind for kind, families in _KEY_FAMILIES.items() if column.data_type in families]
    remedy = f"Set its type to {fitting[0]}." if fitting else f"A key of this kind needs {_FORMS[part.type]}."
    return f"{table}.{part.column} is {column.column_type.upper()}, but the contract calls it {part.type}. {remedy}"


_FORMS = {"int64": "an integer column", "string": "CHAR or VARCHAR", "binary": "BINARY or VARBINARY"}


def _readable_as(column: Column, kind: pa.DataType) -> bool:
    """Whether every value of the column has a fair chance to be one of the contract's type."""
    family = column.data_type
    if pa.types.is_integer(kind):
        return family in _INTEGERS
    if pa.types.is_boolean(kind):
        return family in {"tinyint", "bit"}
    if pa.types.is_floating(kind):
        return family in _INTEGERS | {"float", "double", "decimal"}
    if pa.types.is_decimal(kind):
        return family in _INTEGERS | {"decimal"}
    if pa.types.is_timestamp(kind):
        return family in _MOMENTS
    if pa.types.is_date(kind):
        return family == "date"
    return True  # anything can be read as text or as bytes


def _unique_indexes(parts: Sequence[Row]) -> list[Index]:
    usable: dict[str, list[str] | None] = {}
    for name, column, non_unique, kind, prefix in parts:
        # An index on a prefix of a column, on an expression, or a hash neither proves uniqueness nor gives an order.
        whole = column is not None and prefix is None and _text(non_unique) == "0" and _text(kind) == "BTREE"
        columns = usable.setdefault(_text(name), [])
        if not whole:
            usable[_text(name)] = None
        elif columns is not None:
            columns.append(_text(column).lower())
    return [Index(name, tuple(columns)) for name, columns in usable.items() if columns]


def _text(value: bytes | None) -> str:
    return "" if value is None else value.decode()
