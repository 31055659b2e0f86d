"""What the server says about a master table: its columns and its usable indexes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.config.contracts import DimensionContract
from pipeline.master.mysql.drivers import Query, Row
from pipeline.master.mysql.literals import Part, text
from pipeline.master.mysql.sql import Index, Statements

INTEGERS = {"tinyint", "smallint", "mediumint", "int", "bigint"}
TEXTS = {"char", "varchar"}
BINARIES = {"binary", "varbinary"}
MOMENTS = {"timestamp", "datetime"}
# How the values of a family are written. FLOAT has no exact text, and ENUM's order is not that of its texts.
_FORMS = {
    **dict.fromkeys(INTEGERS | {"decimal", "year"}, "number"),
    **dict.fromkeys(TEXTS, "string"),
    **dict.fromkeys(BINARIES, "binary"),
    **dict.fromkeys(MOMENTS | {"date", "time", "uuid", "inet4", "inet6"}, "plain"),
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
        return natural if natural and is_unique_over(natural, names) else None

    def statements(self, dimension: DimensionContract, reads_json: bool) -> Statements:
        """The reads of this table; `reads_json`: the server can take keys as JSON."""
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
            unique=natural is not None and is_unique_over(natural, names),
            scan_index=self._index(scan.name, scan.columns) if scan else None,
            reads_json=reads_json,
        )

    def _index(self, name: str, columns: Sequence[str]) -> Index:
        return Index(name, tuple(_part(self.columns[column]) for column in columns))


def _part(column: Column) -> Part:
    nullable = column.is_nullable == "YES"
    form, in_json = _FORMS[column.data_type], _in_json(column)
    return Part(column.name, form, column.character_set, column.collation, nullable, in_json)


def _in_json(column: Column) -> str:
    """The type as which a key comes in JSON: what it is compared with must not have to be converted."""
    if column.data_type in INTEGERS:
        return "BIGINT UNSIGNED" if "unsigned" in column.column_type else "BIGINT"
    if column.data_type in TEXTS and column.character_set == "utf8mb4":
        return f"{column.column_type} CHARACTER SET utf8mb4 COLLATE {column.collation}"
    return ""


def is_unique_over(index: Described, names: Sequence[str]) -> bool:
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
