"""The contracts of `schemas/` as Python values: topics, dimensions, warehouse tables.

A contract file says what a message, a master table or a warehouse table looks like; settings say which contract is
used where. A new topic or dimension therefore needs a file and a line of settings, no code.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipeline.columns import SURROGATE_KEY, UPDATED_AT
from pipeline.config import resources
from pipeline.config.contract_files import Validity, refuse_twice, tables, text, texts, toml, validity_of
from pipeline.config.inferred import Value, inferred_of
from pipeline.errors import BadContract

_TYPES = {
    "string": pa.string(),
    "binary": pa.binary(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "uint64": pa.decimal128(20, 0),  # Delta has no unsigned integers
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}
_KEY_TYPES = ("int64", "uint64", "string", "binary")
_OF_UINT64 = {"minimum": 0, "maximum": 2**64 - 1}


def arrow_type(name: str, where: str) -> pa.DataType:
    """The Arrow type of a type's name in a contract.

    >>> arrow_type("decimal(18,2)", "an example")
    Decimal128Type(decimal128(18, 2))
    """
    if not isinstance(name, str):
        raise BadContract(f"{where}: {name!r} is not a type; a type is a text.")
    if name in _TYPES:
        return _TYPES[name]
    if decimal := re.fullmatch(r"decimal\((\d+),\s*(\d+)\)", name):
        precision, scale = int(decimal[1]), int(decimal[2])
        if not (1 <= precision <= 38 and scale <= precision):
            raise BadContract(
                f"{where}: {name} cannot be kept. A decimal has from 1 to 38 digits, of which no more than all are "
                "decimals: decimal(38,10)."
            )
        return pa.decimal128(precision, scale)
    known = ", ".join(_TYPES)
    raise BadContract(f"{where}: {name!r} is not a type. Known types: {known}, decimal(precision,scale).")


@dataclass(frozen=True)
class Field:
    """One field of a message; `column` is its name among the sale's columns."""

    name: str
    column: str
    type: pa.DataType
    nullable: bool
    required: bool
    rules: dict[str, Any]  # minimum, maximum, minLength, maxLength, pattern, enum: as JSON Schema has them


@dataclass(frozen=True)
class TopicContract:
    """What a message of a topic must look like (JSON Schema plus `x-type` and, optionally, `x-column`)."""

    name: str
    fields: tuple[Field, ...]

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema([pa.field(field.column, field.type) for field in self.fields])


@dataclass(frozen=True)
class KeyColumn:
    """One column of a natural key: its name in the master table and in the sale."""

    column: str
    field: str
    type: str


@dataclass(frozen=True)
class DimensionContract:
    """One master table as the job sees it."""

    name: str
    table: str
    natural_key: tuple[KeyColumn, ...]
    surrogate_key: str
    updated_at: str
    attributes: dict[str, pa.DataType]
    validity: Validity | None = None  # then a key may have many rows, and a sale gets the one valid at its time
    inferred: dict[str, Value] | None = None  # what a placeholder row has in other columns; None: there are none

    @cached_property
    def columns(self) -> pa.Schema:
        """What a look-up returns beside the key, in order."""
        return pa.schema(
            [
                pa.field(SURROGATE_KEY, pa.int64()),
                pa.field(UPDATED_AT, pa.timestamp("us", tz="UTC")),
                *(pa.field(name, kind) for name, kind in self.attributes.items()),
            ]
        )

    @cached_property
    def key_type(self) -> pa.DataType:
        """The one type the joins compare: an integer, or bytes (strings and composite keys are bytes)."""
        single_integer = len(self.natural_key) == 1 and self.natural_key[0].type in ("int64", "uint64")
        return pa.int64() if single_integer else pa.binary()


@dataclass(frozen=True)
class TableColumn:
    """One column of a warehouse table and where its value comes from."""

    name: str
    type: pa.DataType
    source: str
    meaning: str


@dataclass(frozen=True)
class TableContract:
    """One warehouse table."""

    name: str
    columns: tuple[TableColumn, ...]
    partition_by: tuple[str, ...]

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema([pa.field(c.name, c.type, metadata={"comment": c.meaning}) for c in self.columns])

    @cached_property
    def by_source(self) -> dict[str, TableColumn]:
        """The columns by where they come from; of several from one place the first."""
        return {column.source: column for column in reversed(self.columns)}


class Contracts:
    """Finds contract files: first in the user's folder, then among the shipped ones."""

    def __init__(self, folder: str | None = None) -> None:
        if folder and not Path(folder).is_dir():
            raise BadContract(f"contracts.folder = {folder} is no folder. Make it, or leave the setting out.")
        self._folders = ([Path(folder)] if folder else []) + [resources.schemas()]

    def topic(self, name: str) -> TopicContract:
        path = self._find("topics", f"{name}.json")
        try:
            document = json.loads(path.read_bytes(), parse_float=Decimal)  # bounds of money are exact
        except (ValueError, ArithmeticError, RecursionError) as error:
            raise BadContract(f"{path}: not JSON ({error}).") from error
        properties = document.get("properties") if isinstance(document, dict) else None
        if not properties or not isinstance(properties, dict):
            raise BadContract(f"{path}: no `properties`; a topic contract needs at least one field.")
        required = texts(document, path, "required")
        if unknown := set(required) - properties.keys():
            raise BadContract(
                f"{path}: `required` names {', '.join(sorted(unknown))}, which `properties` does not have."
            )
        fields = [_field(path, key, rules, key in required) for key, rules in properties.items()]
        return TopicContract(name, tuple(fields))

    def dimension(self, name: str, contract: str | None = None) -> DimensionContract:
        path = self._find("dimensions", f"{contract or name}.toml")
        document = toml(path)
        keys = [KeyColumn(k["column"], k["field"], k["type"]) for k in tables(document, path, "natural_key")]
        for key in keys:
            if key.type not in _KEY_TYPES:
                raise BadContract(
                    f"{path}: natural key {key.column} has type {key.type!r}; it must be one of "
                    f"{', '.join(_KEY_TYPES)}."
                )
        attributes = document.get("attributes", {})
        if not isinstance(attributes, dict):
            raise BadContract(f"{path}: `attributes` = {attributes!r} must be a table of columns and their types.")
        refuse_twice([SURROGATE_KEY, UPDATED_AT, *attributes], path)
        return DimensionContract(
            name=name,
            table=text(document, path, "table"),
            natural_key=tuple(keys),
            surrogate_key=text(document, path, "surrogate_key"),
            updated_at=text(document, path, "updated_at"),
            attributes={a: arrow_type(t, f"{path}: {a}") for a, t in attributes.items()},
            validity=validity_of(document, path),
            inferred=inferred_of(
                document, path, [*(key.column for key in keys), text(document, path, "surrogate_key")]
            ),
        )

    def table(self, name: str) -> TableContract:
        path = self._find("tables", f"{name}.toml")
        document = toml(path)
        columns = tuple(
            TableColumn(c["name"], arrow_type(c["type"], f"{path}: {c['name']}"), c["from"], c.get("meaning", ""))
            for c in tables(document, path, "column")
        )
        partition_by = texts(document, path, "partition_by")
        refuse_twice([column.name for column in columns], path)
        unknown = set(partition_by) - {c.name for c in columns}
        if unknown:
            raise BadContract(f"{path}: partition_by names {sorted(unknown)}, which are no columns of the table.")
        called = text(document, path, "name")
        if not re.fullmatch(r"\w[\w.-]*", called):
            raise BadContract(
                f"{path}: name = {called!r} becomes a folder's name; it must be a word such as fact_sales."
            )
        return TableContract(called, columns, partition_by)

    def ddl(self, table: str) -> str:
        """The CREATE TABLE of a master table (used to seed a development database, never on yours)."""
        return self._find("master", f"{table}.sql").read_text("utf-8")

    def _find(self, kind: str, file: str) -> Path:
        for folder in self._folders:
            if (folder / kind / file).is_file():
                return folder / kind / file
        looked = " or ".join(str(folder / kind) for folder in self._folders)
        raise BadContract(f"no contract {kind}/{file} in {looked}. Put the file there, or set contracts.folder.")


def _field(path: Path, name: str, rules: dict[str, Any], required: bool) -> Field:
    if not isinstance(rules, dict) or "x-type" not in rules:
        raise BadContract(f"{path}: field {name} has no `x-type`; say which column type it becomes.")
    declared = rules.get("type", "string")
    nullable = isinstance(declared, list) and "null" in declared
    kind = arrow_type(rules["x-type"], f"{path}: {name}")
    if rules["x-type"] == "uint64":
        rules = _OF_UINT64 | rules
    column = rules.get("x-column", name)
    if not isinstance(column, str):
        raise BadContract(f"{path}: field {name}: x-column = {column!r} must be a column's name.")
    return Field(name, column, kind, nullable, required, rules)
