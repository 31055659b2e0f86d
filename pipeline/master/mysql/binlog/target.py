"""A master table in the log: which of its columns are the key, and what their bytes mean."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pipeline import keys
from pipeline.config.contracts import DimensionContract
from pipeline.master.mysql.binlog.charsets import as_utf8
from pipeline.master.mysql.binlog.rows import Values
from pipeline.master.mysql.binlog.tables import INTEGERS, TEXTS, LoggedTable
from pipeline.master.mysql.catalogue import INTEGERS as INTEGER_TYPES
from pipeline.master.mysql.catalogue import Catalogue, Column

Meaning = Callable[[bytes], Any]

_TYPES = {"int64": pa.int64(), "uint64": pa.uint64(), "string": pa.binary(), "binary": pa.binary()}
_BOUNDS = {"int64": (-(2**63), 2**63 - 1), "uint64": (0, 2**64 - 1)}


@dataclass(frozen=True)
class Target:
    """One dimension's table, as the catalogue describes it now."""

    dimension: str
    columns: int  # that the table has
    wanted: tuple[int, ...]  # the key's, by their place
    types: tuple[str, ...]  # the contract's
    meanings: tuple[Meaning, ...]
    kinds: tuple[frozenset[int], ...]  # the log's types that each may have

    @classmethod
    def of(cls, contract: DimensionContract, catalogue: Catalogue) -> Target | None:
        """None: the log cannot be understood for this table. It is a view, or has lost a column."""
        names = list(catalogue.columns)
        columns = [catalogue.column(part.column) for part in contract.natural_key]
        if catalogue.is_view or not all(columns):
            return None
        known = [column for column in columns if column]
        return cls(
            contract.name,
            len(names),
            tuple(names.index(column.name.lower()) for column in known),
            tuple(part.type for part in contract.natural_key),
            tuple(map(_meaning, known)),
            tuple(frozenset(INTEGERS if column.data_type in INTEGER_TYPES else TEXTS) for column in known),
        )

    def fits(self, table: LoggedTable) -> bool:
        """Whether the rows were written when the table was as the catalogue has it."""
        return len(table.columns) == self.columns and all(
            table.columns[place].kind in kinds for place, kinds in zip(self.wanted, self.kinds, strict=True)
        )

    def keys(self, found: Sequence[Values]) -> pa.Array:
        """Packed, without those that no sale can have. Raises ValueError for bytes that are no text."""
        whole = [values for values in found if None not in values]
        columns = [
            [meaning(values[place]) for values in whole]  # type: ignore[arg-type]
            for place, meaning in enumerate(self.meanings)
        ]
        ok = [True] * len(whole)
        for kind, column in zip(self.types, columns, strict=True):
            if bounds := _BOUNDS.get(kind):
                ok = [good and bounds[0] <= value <= bounds[1] for good, value in zip(ok, column, strict=True)]
        arrays = [
            pa.array([value for good, value in zip(ok, column, strict=True) if good], _TYPES[kind])
            for kind, column in zip(self.types, columns, strict=True)
        ]
        return keys.pack(arrays)


def _meaning(column: Column) -> Meaning:
    if column.data_type in INTEGER_TYPES:
        signed = "unsigned" not in column.column_type
        return lambda value: int.from_bytes(value, "little", signed=signed)
    if column.data_type == "binary":
        # The log leaves out the zeros at the end.
        width = int(re.sub(r"\D", "", column.column_type) or 1)
        return lambda value: value.ljust(width, b"\0")
    return as_utf8(column.character_set) or _not_known


def _not_known(value: bytes) -> bytes:
    raise ValueError("a character set that Python does not know")
