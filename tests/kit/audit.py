"""What a master table was, one state after the other: kept by triggers of the database, and as a history has it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import duckdb
from deltalake import DeltaTable

Row = tuple[Any, ...]
States = dict[str, list[Row | None]]  # by key; None where it was gone

_OPS = {"INSERT": {"come": "NEW"}, "UPDATE": {"before": "OLD", "after": "NEW"}, "DELETE": {"gone": "OLD"}}


class Audit:
    """A table beside the master table. The first of its columns is the key."""

    def __init__(self, execute: Callable[..., Sequence[Row]], table: str, columns: Mapping[str, str]) -> None:
        """`execute` runs statements by a session in UTC and gives the last one's rows; `columns` have the types of the
        database, and may be null here."""
        self._execute, self._table, self._columns = execute, table, columns
        self._listed = ", ".join(f"`{name}`" for name in columns)

    def make(self) -> None:
        plain = ", ".join(f"`{name}` {kind}" for name, kind in self._columns.items())
        self._execute(f"CREATE TABLE audit (n BIGINT AUTO_INCREMENT PRIMARY KEY, op VARCHAR(6), {plain})")
        self._execute(f"INSERT INTO audit (op, {self._listed}) SELECT 'come', {self._listed} FROM {self._table}")
        for event, ops in _OPS.items():
            rows = "; ".join(
                f"INSERT INTO audit (op, {self._listed}) "
                f"VALUES ('{op}', {', '.join(f'{row}.`{name}`' for name in self._columns)})"
                for op, row in ops.items()
            )
            self._execute(f"CREATE TRIGGER audit_{event} AFTER {event} ON {self._table} FOR EACH ROW BEGIN {rows}; END")

    def behind_now(self) -> int:
        """Its last number."""
        return int(self._execute("SELECT COALESCE(MAX(n), 0) FROM audit")[0][0])

    def states(self, behind: int = 0) -> States:
        """By the database itself, beginning with what it was behind that number."""
        states: States = defaultdict(lambda: [None])
        old = ""
        for number, op, *values in self._execute(f"SELECT n, op, {self._listed} FROM audit ORDER BY n"):
            row, key = tuple(values), values[0]
            if op == "before":
                old = key
                continue
            if op == "after" and old != key:
                states[old].append(None)
            if op == "gone" or states[key][-1] != row:
                states[key].append(None if op == "gone" else row)
            if number <= behind:
                states[key], states[old] = states[key][-1:], states[old][-1:]
        return {key: found for key, found in states.items() if found != [None]}

    def states_in(self, history: DeltaTable) -> States:
        """The same by a history of type 2."""
        states: States = {}
        ended: dict[str, str | None] = {}
        for version in versions(history):
            key = version[next(iter(self._columns))]
            known = states.setdefault(key, [] if "#" not in version["from_position"] else [None])
            if known and ended.get(key, "") != version["from_position"] and known != [None]:
                known.append(None)
            known.append(tuple(plain(version[name]) for name in self._columns))
            ended[key] = version["to_position"]
        for key, position in ended.items():
            states[key] += [] if position is None else [None]
        return states


def versions(history: DeltaTable) -> list[dict[str, Any]]:
    """As an independent reader has them, in their order."""
    found = history.to_pyarrow_dataset()
    with duckdb.connect() as connection:
        connection.register("found", found)
        return connection.sql("SELECT * FROM found ORDER BY version_key").to_arrow_table().to_pylist()


def plain(value: Any) -> Any:
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value
