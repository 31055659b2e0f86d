"""Every fact carries the master row that SQL finds for its natural key, or the unknown member where SQL finds none.

None of this goes through the joins: the distinct natural keys of the facts are asked for in the database, with pymysql,
and compared here, byte for byte, with what the facts say.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pymysql

from pipeline.config.contracts import DimensionContract, arrow_type
from pipeline.config.settings import MasterData
from pipeline.reconcile.tables import NotReconcilable, WarehouseTable
from pipeline.reconcile.verdict import SHOWN, Check

UNKNOWN_MEMBER = -1  # said here again: a proof uses nothing of what it proves
_KEYS_A_QUERY = 1_000

Row = tuple[Any, ...]
_EVER = datetime.min.replace(tzinfo=timezone.utc)


@dataclass
class DimensionFound:
    """What the facts say about one dimension."""

    check: Check
    nulls: int  # facts whose natural key is null
    unmatched: int  # facts with a natural key that the master does not have


@dataclass
class _Tally:
    facts: int = 0
    rows: int = 0  # distinct ones
    nulls: int = 0
    unmatched: int = 0
    earlier: int = 0  # facts joined with a version of the row that has changed since
    wrong: int = 0
    first: list[str] = field(default_factory=list)


def connect(master: MasterData) -> Any:
    """A session of our own, in UTC. TLS is used where the server offers it; the CA is checked if one is set."""
    try:
        file = master.password_file
        password = Path(file).read_text("utf-8").rstrip("\r\n") if file else master.password
    except OSError as error:
        raise NotReconcilable(f"master.password_file = {file} cannot be read: {error.strerror}.") from error
    try:
        return pymysql.connect(
            host=master.host,
            port=master.port,
            user=master.user,
            password=str(password),
            database=master.database,
            charset="utf8mb4",
            init_command="SET SESSION time_zone = '+00:00', sql_mode = ''",
            connect_timeout=max(1, round(master.connect_timeout)),
            **({"ssl": {"ca": master.tls_ca}} if master.tls_ca else {}),
        )
    except pymysql.MySQLError as error:
        raise NotReconcilable(
            f"no connection to the master database {master.database} as {master.user}@{master.host}:{master.port}: "
            f"{error}. The settings' [master] must be those of the job."
        ) from error


def keys_as_sent(contract: DimensionContract) -> list[str]:
    """The natural key's columns, by where they come from."""
    return [f"sale.{key.field}" for key in contract.natural_key]


def asked_by(contract: DimensionContract) -> list[str]:
    """What decides which row a sale gets, by where it comes from: its natural key, and its time if that counts."""
    return keys_as_sent(contract) + ([f"sale.{contract.validity.at}"] if contract.validity else [])


def check(facts: WarehouseTable, contract: DimensionContract, connection: Any) -> DimensionFound:
    """Compare all facts with the master table of one dimension."""
    asked = asked_by(contract)
    carried = [field for field in contract.columns if facts.has(f"{contract.name}.{field.name}")]
    expected = Expected(contract, carried, connection)
    distinct = facts.distinct([*asked, *(f"{contract.name}.{field.name}" for field in carried)])
    tally = _Tally()
    for start in range(0, len(distinct), _KEYS_A_QUERY):
        rows = [tuple(row.values()) for row in distinct.slice(start, _KEYS_A_QUERY).to_pylist()]
        _compare(rows, expected, tally)
    columns = ", ".join(facts.name(f"{contract.name}.{field.name}") for field in carried)
    among = f"{tally.facts:,} ({tally.rows:,} distinct, {tally.unmatched:,} unmatched, {tally.nulls:,} null)"
    if tally.earlier:
        among += f", {tally.earlier:,} with an earlier version"
    if not carried:
        among += ", which carry no column of it: there is nothing to compare"
    look = f"Compare {columns} in {facts.uri} with SELECT … FROM {contract.table}; was the master changed meanwhile?"
    name = f"{contract.name}: facts that differ from SQL"
    return DimensionFound(Check.none(name, tally.first, among, look, tally.wrong), tally.nulls, tally.unmatched)


class Expected:
    """The rows that facts with these natural keys should carry, by SQL."""

    def __init__(self, contract: DimensionContract, carried: list[pa.Field], connection: Any) -> None:
        self.name = contract.name
        self.key_columns = len(contract.natural_key)
        self.version = next((i for i, column in enumerate(carried) if column.name == "updated_at"), None)
        self.surrogate = next((i for i, column in enumerate(carried) if column.name == "surrogate_key"), None)
        self.unknown_member = tuple(UNKNOWN_MEMBER if c.name == "surrogate_key" else None for c in carried)
        self._connection = connection
        self._types = [arrow_type(k.type, contract.name) for k in contract.natural_key] + [c.type for c in carried]
        in_master = {"surrogate_key": contract.surrogate_key, "updated_at": contract.updated_at}
        key_names = [_quoted(key.column) for key in contract.natural_key]
        names = key_names + [_quoted(in_master.get(column.name, column.name)) for column in carried]
        self.is_as_of = contract.validity is not None
        if contract.validity:
            names += map(_quoted, (contract.validity.begins, contract.validity.ends, contract.surrogate_key))
            self._types += [pa.timestamp("us", "UTC"), pa.timestamp("us", "UTC"), pa.int64()]
        place = ", ".join(["%s"] * len(key_names))
        self._select = f"SELECT {', '.join(names)} FROM {_quoted(contract.table)} WHERE ({', '.join(key_names)}) IN "
        self._place = f"({place})" if len(key_names) > 1 else place

    def rows(self, keys: list[Row]) -> dict[Row, list[Row]]:
        """By key. The server compares by its collation, so it may return more keys than were asked for: harmless."""
        found: dict[Row, list[Row]] = defaultdict(list)
        if keys:
            with self._connection.cursor() as cursor:
                places = ", ".join([self._place] * len(keys))
                cursor.execute(f"{self._select}({places})", [part for key in keys for part in key])
                for row in self._as_arrow_has_them(cursor.fetchall()):
                    found[row[: self.key_columns]].append(row[self.key_columns :])
        return found

    def counting(self, rows: list[Row], at: datetime | None) -> list[Row]:
        """Of a key's rows those that a sale of this time should carry: all, unless each is valid for a time of its own.

        Then it is the one that begins last of those that have begun and not ended, of several the one with the greatest
        surrogate key.
        """
        if not self.is_as_of:
            return rows
        valid = [
            (begins or _EVER, surrogate, row)
            for *row, begins, ends, surrogate in rows
            if at is not None and (begins is None or begins <= at) and (ends is None or at < ends)
        ]
        return [tuple(max(valid, key=lambda one: one[:2])[2])] if valid else []

    def _as_arrow_has_them(self, rows: list[Row]) -> Iterator[Row]:
        """A decimal with its scale, a bit as a boolean, a time with its zone: as the contract's types say."""
        if not rows:
            return iter(())
        columns = zip(*rows, strict=True)
        return zip(*(pa.array(c, t).to_pylist() for c, t in zip(columns, self._types, strict=True)), strict=True)


def _compare(rows: list[Row], expected: Expected, tally: _Tally) -> None:
    width = expected.key_columns
    asked = width + expected.is_as_of
    known = list({row[:width] for row in rows if None not in row[:width]})
    in_master = expected.rows(known)
    for *values, count in rows:
        key, carried = tuple(values[:width]), tuple(values[asked:])
        tally.facts += count
        tally.rows += 1
        if None in key:
            tally.nulls += count
            candidates = []
        else:
            candidates = expected.counting(in_master.get(key, []), values[width] if expected.is_as_of else None)
            tally.unmatched += 0 if candidates else count
        if carried in (candidates or [expected.unknown_member]):
            continue
        if any(_is_earlier(carried, now, expected) for now in candidates):
            tally.earlier += count
            continue
        tally.wrong += count
        if len(tally.first) < SHOWN:
            should = candidates[0] if candidates else expected.unknown_member
            tally.first.append(
                f"key {_shown(key)}: {_shown(should)} in the database, {_shown(carried)} in {count:,} facts"
            )


def _is_earlier(carried: Row, now: Row, expected: Expected) -> bool:
    """A row that has changed since the fact was written may differ in all but its surrogate key."""
    if expected.version is None or expected.surrogate is None or carried[expected.version] is None:
        return False
    return bool(
        carried[expected.surrogate] == now[expected.surrogate] and carried[expected.version] < now[expected.version]
    )


def _shown(row: Row) -> str:
    return "(" + ", ".join(str(value) if value is not None else "null" for value in row) + ")"


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``").replace("%", "%%") + "`"
