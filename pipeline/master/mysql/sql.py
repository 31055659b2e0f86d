"""The statements that read a master table, as text. Nothing here talks to a server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from pipeline import keys as natural_keys
from pipeline.master.mysql import keytable
from pipeline.master.mysql.literals import Part, listed, quoted


@dataclass(frozen=True)
class Index:
    """An index to read by: its name, and those of its columns that matter, in its order."""

    name: str
    parts: tuple[Part, ...]

    @property
    def names(self) -> list[str]:
        return [quoted(part.name) for part in self.parts]

    def without_null(self) -> list[str]:
        return [f"{quoted(part.name)} IS NOT NULL" for part in self.parts if part.nullable]

    def values(self, columns: Sequence[pa.Array]) -> list[str]:
        """The first value of each column as SQL."""
        pairs = zip(self.parts, columns, strict=True)
        return [str(part.literals(values.slice(0, 1))[0].as_py()) for part, values in pairs]


@dataclass(frozen=True)
class Statements:
    """The reads of one master table. A place in an index is a column of one value for each of its parts."""

    table: str
    columns: tuple[str, ...]  # the natural key's first
    key: tuple[Part, ...]  # in the order of the contract
    key_index: Index | None  # on the natural key
    key_order: tuple[int, ...]  # the key's parts in the order of that index
    unique: bool  # that index proves that a key has at most one row
    scan_index: Index | None  # unique, not null
    reads_json: bool = False  # the server knows JSON_TABLE

    def lookup(self, key_columns: Sequence[pa.Array]) -> str:
        """The rows with these keys. One may come more than once, if its key is one of several for its collation."""
        if self.unique and self.reads_json and len(key_columns[0]) >= keytable.LEAST:
            name = f"keys of {self.table}"  # not the name of the table itself
            if asked := keytable.key_table(self.key, key_columns, name):
                return self._join(asked, name)
        return f"{self._select(self._by_key)} WHERE {listed(self.key, key_columns)}"

    def _join(self, asked: str, name: str) -> str:
        """Key by key, in this order: the server has no idea how few keys there are."""
        table = quoted(self.table)
        wanted = ",".join(f"{table}.{quoted(column)}" for column in self.columns)
        same = (f"{table}.{quoted(part.name)} = {quoted(name)}.k{i}" for i, part in enumerate(self.key))
        index = quoted(self._by_key.name)
        return f"SELECT {wanted} FROM {asked} STRAIGHT_JOIN {table} FORCE INDEX ({index}) ON {' AND '.join(same)}"

    def lookup_from(self, key_columns: Sequence[pa.Array], behind: Sequence[pa.Array] | None, rows: int) -> str:
        """The next rows with these keys, in the scan's order; columns as a scan has them."""
        limits = _range(self._by_scan, _bound(">", behind), None, rows, listed(self.key, key_columns))
        return f"{self._select(self._by_key, *map(quoted, self._beside))}{limits}"

    def page(
        self,
        first: Sequence[pa.Array] | None,
        until: Sequence[pa.Array] | None,
        rows: int,
        also: Sequence[pa.Array] | None,
    ) -> str:
        """Rows in the key's order from one place up to another; with `also`, the last column tells the parts apart."""
        index = self._by_key
        page = _range(index, _bound(">=", first), _bound("<", until), rows)
        if also is None:
            return f"{self._select(index)}{page}"
        others = f"{self._select(index, '1')} WHERE {listed(self.key, also)}"
        return f"({self._select(index, '0')}{page}) UNION ALL ({others})"

    def keys(self, behind: Sequence[pa.Array] | None, rows: int) -> str:
        """Keys alone, in their index's order: the server reads nothing but the index."""
        index = self._by_key
        columns = ",".join(quoted(part.name) for part in self.key)
        return f"SELECT {columns} {self._from(index)}{_range(index, _bound('>', behind), None, rows)}"

    def scan(self, behind: Sequence[pa.Array] | None, until: Sequence[pa.Array] | None, rows: int) -> str:
        """Rows in the scan's order; behind the contract's columns come those that the place of a row needs besides."""
        index = self._by_scan
        limits = _range(index, _bound(">", behind), _bound("<=", until), rows)
        return f"{self._select(index, *map(quoted, self._beside))}{limits}"

    @property
    def scan_places(self) -> list[int]:
        """Which of a scan's columns tell the place of a row."""
        every = [*self.columns, *self._beside]
        return [every.index(part.name) for part in self._by_scan.parts]

    def place_in_scan(self, place: bytes) -> list[pa.Array]:
        """The place of a row as the values of its columns."""
        return natural_keys.unpack(pa.array([place], pa.binary()), ["binary"] * len(self._by_scan.parts))

    def count(self) -> str:
        return f"SELECT COUNT(*) FROM {quoted(self.table)}"

    def weights(self, part: Part) -> str:
        """How the column's collation weighs each ASCII character."""
        literals = part.literals(pa.array([bytes([code]) for code in range(128)], pa.binary()))
        in_its_collation = "{}" if "COLLATE" in literals[0].as_py() else f"{{}} COLLATE {part.collation}"
        each = (f"WEIGHT_STRING({in_its_collation.format(literal)})" for literal in literals.to_pylist())
        return f"SELECT {','.join(each)}"

    @property
    def _beside(self) -> list[str]:
        return [part.name for part in self._by_scan.parts if part.name not in self.columns]

    @property
    def _by_key(self) -> Index:
        assert self.key_index is not None, "the master looked before it asked"
        return self.key_index

    @property
    def _by_scan(self) -> Index:
        assert self.scan_index is not None, "the master looked before it asked"
        return self.scan_index

    def _select(self, index: Index, *after: str) -> str:
        return f"SELECT {','.join([*map(quoted, self.columns), *after])} {self._from(index)}"

    def _from(self, index: Index) -> str:
        # The index is named because fresh statistics may not be there yet after a bulk load, and a table believed
        # empty is read whole for every look-up.
        return f"FROM {quoted(self.table)} FORCE INDEX ({quoted(index.name)})"


_Bound = tuple[str, Sequence[pa.Array]]  # how the last column compares, and the place


def _bound(how: str, place: Sequence[pa.Array] | None) -> _Bound | None:
    return None if place is None else (how, place)


def _range(index: Index, low: _Bound | None, high: _Bound | None, rows: int, *conditions: str) -> str:
    """Rows in the index's order between two places; never OFFSET, which reads what it skips."""
    where = [*index.without_null(), *conditions]
    for bound in (low, high):
        if bound is not None:
            how, place = bound
            where.append(f"({beyond(index.names, index.values(place), how)})")
    condition = f" WHERE {' AND '.join(where)}" if where else ""
    return f"{condition} ORDER BY {','.join(index.names)} LIMIT {int(rows)}"


def beyond(names: Sequence[str], values: Sequence[str], how: str) -> str:
    """Rows on one side of a place in the index's order, spelled out: a row constructor would scan from the start.

    >>> beyond(["a", "b"], ["1", "2"], ">=")
    '(a > 1) OR (a = 1 AND b >= 2)'
    >>> beyond(["a", "b"], ["1", "2"], "<")
    '(a < 1) OR (a = 1 AND b < 2)'
    """
    cases = []
    for i, (name, value) in enumerate(zip(names, values, strict=True)):
        equal = [f"{names[j]} = {values[j]}" for j in range(i)]
        side = f"{name} {how if i == len(names) - 1 else how[0]} {value}"
        cases.append(f"({' AND '.join([*equal, side])})")
    return " OR ".join(cases)
