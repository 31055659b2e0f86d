"""Fills the master tables of a development database, in bulk."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pymysql

from pipeline.config.contracts import Contracts
from pipeline.errors import MillraceError
from pipeline.generate.keys import Rows, Sizes
from pipeline.generate.masters import MASTERS
from pipeline.generate.progress import bar

_ROWS_A_STATEMENT = 5_000  # half a megabyte: far below any server's max_allowed_packet
_ROWS_A_COMMIT = 100_000


class SeedRefused(MillraceError):
    """The database cannot be seeded without harm, or not at all."""


@dataclass(frozen=True)
class Seeded:
    """One table that was filled."""

    table: str
    rows: int
    seconds: float


def connect(host: str, port: int, user: str, password: str, database: str) -> Any:
    """A connection to seed with. TLS is used where the server offers it; its certificate is not checked."""
    try:
        return pymysql.connect(host=host, port=port, user=user, password=password, database=database)
    except pymysql.MySQLError as error:
        raise SeedRefused(
            f"no connection as {user}@{host}:{port}/{database}: {error}. Start the server, create the database and "
            "grant the user all rights in it, or name another one."
        ) from error


def seed(
    connection: Any,
    sizes: Sizes,
    *,
    replace: bool = False,
    contracts: str | None = None,
    progress: bool = True,
) -> list[Seeded]:
    """Create the master tables and fill them; one whose size is 0 is left alone.

    Row r is the same whatever the size. A table that has rows already is refused, unless `replace`: then it is dropped
    first. `contracts` is the user's folder of contracts, where the tables' DDL may be found before the shipped ones.
    """
    wanted = {table: rows for table, rows in zip(MASTERS, sizes.by_dimension, strict=True) if rows}
    if not wanted or min(wanted.values()) < 0:
        raise SeedRefused(f"sizes: {sizes}. At least one table needs a number of rows above 0.")
    try:
        with connection.cursor() as cursor:
            if not replace:
                _refuse_to_overwrite(cursor, wanted)
            ddl = Contracts(contracts)
            for table in wanted:
                cursor.execute(f"DROP TABLE IF EXISTS {table}")
                cursor.execute(ddl.ddl(table))
            with _utc(cursor):
                return [_fill(connection, cursor, table, rows, progress) for table, rows in wanted.items()]
    except pymysql.MySQLError as error:
        raise SeedRefused(
            f"seeding failed: {error}. What was filled so far stays; seed again with --replace."
        ) from error


def _refuse_to_overwrite(cursor: Any, wanted: dict[str, int]) -> None:
    for table in wanted:
        cursor.execute("SHOW TABLES LIKE %s", (table,))
        if cursor.fetchone() and cursor.execute(f"SELECT 1 FROM {table} LIMIT 1"):
            raise SeedRefused(
                f"table {table} has rows already; no table was touched. Seed with --replace to drop it and fill it "
                "anew, or name another database."
            )


def _fill(connection: Any, cursor: Any, table: str, rows: int, progress: bool) -> Seeded:
    started = time.monotonic()
    with bar(table, rows, progress) as advance:
        connection.begin()
        for first in range(0, rows, _ROWS_A_STATEMENT):
            last = min(first + _ROWS_A_STATEMENT, rows)
            cursor.execute(_insert(table, np.arange(first, last)))
            if last % _ROWS_A_COMMIT == 0:
                connection.commit()
                connection.begin()
            advance(last - first)
        connection.commit()
    return Seeded(table, rows, round(time.monotonic() - started, 3))


@contextmanager
def _utc(cursor: Any) -> Iterator[None]:
    """The literals of `updated_at` are UTC, whatever zone the session is in."""
    cursor.execute("SELECT @@session.time_zone")
    [before] = cursor.fetchone()
    cursor.execute("SET SESSION time_zone = '+00:00'")
    try:
        yield
    finally:
        cursor.execute("SET SESSION time_zone = %s", (before,))


def _insert(table: str, rows: Rows) -> str:
    """One statement for many rows, built by whole columns."""
    columns = MASTERS[table](rows)
    row = pc.binary_join_element_wise(*map(_literal, columns.values()), ", ")
    values = pc.binary_join_element_wise("(", row, ")", "")
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES {','.join(values.to_pylist())}"


def _literal(column: Any) -> Any:
    if pa.types.is_integer(column.type):
        return pc.cast(column, pa.string())
    # No word of ours has a backslash, so a doubled quote is all the escaping there is, in every sql_mode.
    return pc.binary_join_element_wise("'", pc.replace_substring(column, "'", "''"), "'", "")
