"""What the server says about a master table, and whether that fits the dimension's contract."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from pipeline.contracts import DimensionContract, KeyColumn
from pipeline.master.drivers import Row
from pipeline.master.literals import Part, text
from pipeline.master.sql import Index, Statements

Query = Callable[[str, str], Sequence[Row]]  # a statement and its purpose

_INTEGERS = {"tinyint", "smallint", "mediumint", "int", "bigint"}
_TEXTS = {"char", "varchar"}
_BINARIES = {"binary", "varbinary"}
_MOMENTS = {"timestamp", "datetime"}
_KEY_FAMILIES = {"int64": _INTEGERS, "uint64": _INTEGERS, "string": _TEXTS, "binary": _BINARIES}
# How the values of a family are written. FLOAT has no exact text, and ENUM's order is not that of its texts.
_FORMS = {
    **dict.fromkeys(_INTEGERS | {"decimal", "year"}, "number"),
    **dict.fromkeys(_TEXTS, "string"),
    **dict.fromkeys(_BINARIES, "binary"),
    **dict.fromkeys(_MOMENTS | {"date", "time", "uuid", "inet4", "inet6"}, "plain"),
}


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
class Described:
    """One usable index: a B-tree over whole columns."""

    name: str
    columns: tuple[str, ...]  # lower case, in the index's order
    unique: bool


@dataclass(frozen=True)
class Catalogue:
    """A table as the server describes it. Column names are looked up without regard to case, as the server does."""

    columns: dict[str, Column]
    indexes: tuple[Described, ...]
    is_view: bool = False

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
        kind = f"SELECT TABLE_TYPE FROM information_schema.TABLES WHERE {here}"
        is_view = not parts and any(_text(row[0]).endswith("VIEW") for row in query(kind, f"describing {table}"))
        return cls({column.name.lower(): column for column in described}, tuple(_usable_indexes(parts)), is_view)

    def column(self, name: str) -> Column | None:
        return self.columns.get(name.lower())

    def key_index(self, names: Sequence[str]) -> Described | None:
        """The best index for these columns: a unique one on exactly them, else one that begins with them."""
        wanted = sorted(name.lower() for name in names)
        fitting = [index for index in self.indexes if sorted(index.columns[: len(wanted)]) == wanted]
        exact = [index for index in fitting if index.unique and len(index.columns) == len(wanted)]
        return next(iter(exact or fitting), None)

    def scan_index(self, names: Sequence[str]) -> Described | None:
        """An index in whose order every row has a place of its own: the primary key, else a unique one without null.

        Else the unique index on the natural key, since rows without one are not delivered.
        """
        for index in self.indexes:
            columns = [self.columns[name] for name in index.columns]
            placed = index.unique and all(column.data_type in _FORMS for column in columns)
            if placed and all(column.is_nullable == "NO" for column in columns):
                return index
        natural = self.key_index(names)
        return natural if natural and _is_unique_over(natural, names) else None

    def statements(self, dimension: DimensionContract) -> Statements:
        """The reads of this table."""
        keys = [self.columns[part.column.lower()] for part in dimension.natural_key]
        rest = [dimension.surrogate_key, dimension.updated_at, *dimension.attributes]
        names = [key.name.lower() for key in keys]
        natural, scan = self.key_index(names), self.scan_index(names)
        order = natural.columns[: len(names)] if natural else ()
        return Statements(
            table=dimension.table,
            columns=(*(key.name for key in keys), *(self.columns[name.lower()].name for name in rest)),
            key=tuple(map(_part, keys)),
            key_index=self._index(natural.name, order) if natural else None,
            key_order=tuple(names.index(name) for name in order),
            unique=natural is not None and _is_unique_over(natural, names),
            scan_index=self._index(scan.name, scan.columns) if scan else None,
        )

    def _index(self, name: str, columns: Sequence[str]) -> Index:
        return Index(name, tuple(_part(self.columns[column]) for column in columns))


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
    return broken


def no_unique_index(catalogue: Catalogue, dimension: DimensionContract) -> list[str]:
    """What to say if look-ups cannot find a key, or not only one row of it."""
    names = [part.column for part in dimension.natural_key]
    index = catalogue.key_index(names)
    if index and _is_unique_over(index, names):
        return []
    table, columns = dimension.table, ", ".join(names)
    if catalogue.is_view:
        return [_no_view(dimension)]
    return [
        f"{table} has no usable unique index on exactly ({columns}); look-ups would read the whole table, and a "
        f"key could have two rows. Add one: ALTER TABLE {table} ADD UNIQUE INDEX ({columns})."
    ]


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


def _part(column: Column) -> Part:
    nullable = column.is_nullable == "YES"
    return Part(column.name, _FORMS[column.data_type], column.character_set, column.collation, nullable)


def _is_unique_over(index: Described, names: Sequence[str]) -> bool:
    return index.unique and len(index.columns) == len(names)


def _usable_indexes(parts: Sequence[Row]) -> list[Described]:
    """Those that give an order, the primary key first."""
    usable: dict[str, list[str] | None] = {}
    unique: dict[str, bool] = {}
    for name, column, non_unique, kind, prefix in parts:
        # An index on a prefix of a column, on an expression, or a hash neither proves uniqueness nor gives an order.
        whole = column is not None and prefix is None and _text(kind) == "BTREE"
        columns = usable.setdefault(_text(name), [])
        unique[_text(name)] = _text(non_unique) == "0"
        if not whole:
            usable[_text(name)] = None
        elif columns is not None:
            columns.append(_text(column).lower())
    described = [Described(name, tuple(columns), unique[name]) for name, columns in usable.items() if columns]
    return sorted(described, key=lambda index: index.name != "PRIMARY")


def _text(value: bytes | None) -> str:
    return "" if value is None else value.decode()
