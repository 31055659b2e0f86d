"""The statements that read a master table, as text. Nothing here talks to a server.

A value is written as a hexadecimal literal with its character set, so that no quote, backslash, NUL or SQL mode can
change what it means. A literal for a column of another character set is converted to the column's, or the server
would convert the column instead, and read the whole table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True)
class KeyPart:
    """One column of the natural key as the server describes it."""

    name: str
    type: str  # the contract's: int64, string, binary
    character_set: str  # of the column; empty unless it is text
    collation: str
    nullable: bool

    def literals(self, values: pa.Array) -> list[str]:
        """Each value as SQL.

        >>> KeyPart("n", "int64", "", "", False).literals(pa.array([-7]))
        ['-7']
        >>> KeyPart("code", "string", "utf8mb4", "utf8mb4_bin", False).literals(pa.array(["a'b"]))
        ["_utf8mb4 x'612762'"]
        >>> KeyPart("code", "string", "latin1", "latin1_bin", False).literals(pa.array(["é"]))
        ["CONVERT(_utf8mb4 x'c3a9' USING latin1) COLLATE latin1_bin"]
        """
        if self.type == "int64":
            return [str(value) for value in values.to_pylist()]
        texts = [value.hex() for value in values.cast(pa.binary()).to_pylist()]
        if self.type == "binary":
            return [f"x'{text}'" for text in texts]
        if self.character_set == "utf8mb4":
            return [f"_utf8mb4 x'{text}'" for text in texts]
        # What the column's character set lacks becomes a question mark, which the comparison of bytes rejects later.
        tail = f"' USING {self.character_set}) COLLATE {self.collation}"
        return [f"CONVERT(_utf8mb4 x'{text}{tail}" for text in texts]


@dataclass(frozen=True)
class Statements:
    """The reads of one master table."""

    table: str
    columns: tuple[str, ...]  # the natural key's first
    key: tuple[KeyPart, ...]
    index: str  # the unique index over the natural key
    index_order: tuple[int, ...]  # the key's parts in the order of that index

    def lookup(self, key_columns: Sequence[pa.Array]) -> str:
        """The rows with these keys: one IN list. Row constructors beat ORs of ANDs 3:1 on keys of two columns."""
        literals = [part.literals(values) for part, values in zip(self.key, key_columns, strict=True)]
        names = [quoted(part.name) for part in self.key]
        if len(literals) == 1:
            return f"{self._select} WHERE {names[0]} IN ({','.join(literals[0])})"
        rows = ",".join(f"({','.join(row)})" for row in zip(*literals, strict=True))
        return f"{self._select} WHERE ({','.join(names)}) IN ({rows})"

    def page(self, key_columns: Sequence[pa.Array] | None, rows: int, inclusive: bool) -> str:
        """Rows in the index's order, behind one key (or from it on); never OFFSET, which reads what it skips."""
        parts = [self.key[i] for i in self.index_order]
        names = [quoted(part.name) for part in parts]
        where = [f"{quoted(part.name)} IS NOT NULL" for part in parts if part.nullable]
        if key_columns is not None:
            values = [part.literals(key_columns[i])[0] for i, part in zip(self.index_order, parts, strict=True)]
            where.append(f"({behind(names, values, '>=' if inclusive else '>')})")
        condition = f" WHERE {' AND '.join(where)}" if where else ""
        return f"{self._select}{condition} ORDER BY {','.join(names)} LIMIT {int(rows)}"

    def count(self) -> str:
        return f"SELECT COUNT(*) FROM {quoted(self.table)}"

    @property
    def _select(self) -> str:
        # The index is named because fresh statistics may not be there yet after a bulk load, and a table believed
        # empty is read whole for every look-up.
        columns = ",".join(map(quoted, self.columns))
        return f"SELECT {columns} FROM {quoted(self.table)} FORCE INDEX ({quoted(self.index)})"


def behind(names: Sequence[str], values: Sequence[str], last: str) -> str:
    """Rows that follow a key in the index's order, spelled out: a row constructor here would scan from the start.

    >>> behind(["a", "b"], ["1", "2"], ">=")
    '(a > 1) OR (a = 1 AND b >= 2)'
    """
    cases = []
    for i, (name, value) in enumerate(zip(names, values, strict=True)):
        equal = [f"{names[j]} = {values[j]}" for j in range(i)]
        beyond = f"{name} {last if i == len(names) - 1 else '>'} {value}"
        cases.append(f"({' AND '.join([*equal, beyond])})")
    return " OR ".join(cases)


def quoted(identifier: str) -> str:
    """An identifier between backticks.

    >>> quoted("a`b")
    '`a``b`'
    """
    return "`" + identifier.replace("`", "``") + "`"


def text(value: str) -> str:
    """A string as SQL, whatever it holds."""
    return f"_utf8mb4 x'{value.encode().hex()}'"
