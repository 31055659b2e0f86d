"""Placeholder rows of a MySQL or MariaDB table: a statement a row, so that each row's failure is its own.

A row that is there stays as it is: the statement fails on its key and on nothing else that would be hidden with it, as
`INSERT IGNORE` hides what does not fit. Nothing is cut to fit, either: sessions are strict.
"""

from __future__ import annotations

import re
from contextlib import closing
from dataclasses import dataclass, replace

import pymysql

from pipeline.config.contracts import DimensionContract
from pipeline.config.inferred import InferredSettings, Value
from pipeline.config.settings import MasterData
from pipeline.errors import BadContract, BadSetting, MasterReadFailed
from pipeline.master.mysql.catalogue import Catalogue
from pipeline.master.mysql.connection import address_of
from pipeline.master.mysql.drivers import SocketDriver, ask, connect
from pipeline.master.mysql.literals import quoted, text
from pipeline.master.placeholders import Inserted, Key, Outcome

_DUPLICATE = 1062
_OF_INDEX = re.compile(r"for key '(?:[^']*\.)?([^'.]+)'")  # with the table's name or without
_DENIED = (1044, 1045, 1142, 1143)
_NO_ROWS_OWN = range(2000, 3000)  # what a client says of its connection, not the server of a row
_SESSION = (
    "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO'",
    "SET SESSION time_zone = '+00:00'",
    "SET SESSION autocommit = 1",
)


@dataclass(frozen=True)
class _Column:
    name: str
    is_needed: bool  # NOT NULL, and nothing fills it by itself
    counts_itself: bool


class MySqlPlaceholders:
    """Opens a session as the account that may insert, and ends it with the block."""

    def __init__(self, reader: MasterData, settings: InferredSettings, contract: DimensionContract) -> None:
        assert contract.inferred is not None, "is opened where the contract has placeholders"
        self._reader, self._contract, self._values = reader, contract, dict(contract.inferred)
        self._writer = replace(reader, user=settings.user, password_file=settings.password_file)
        self._driver: SocketDriver | None = None
        self._tells_time = False  # what a placeholder's update time is
        self._index = ""  # of the natural key

    def __enter__(self) -> MySqlPlaceholders:
        self.check()
        try:
            self._driver = connect(address_of(self._writer))
            for statement in _SESSION:
                ask(self._driver, statement)
        except pymysql.MySQLError as error:
            raise BadSetting(
                f"inferred.user = {self._writer.user} is not let in: {error}. `millrace grants mysql` prints what it "
                f"needs."
            ) from error
        # As none is asked for, what is refused now is refused for every row: no right, a server that only reads.
        tried = self._ask([None for _ in self._key], "SELECT {} FROM DUAL WHERE FALSE")
        if tried.outcome is not Outcome.INSERTED:
            raise BadSetting(
                f"no placeholder row can be inserted into {self._contract.table}: {tried.why}. Nothing was inserted; "
                f"run it against a server that takes such rows."
            )
        return self

    def __exit__(self, *_: object) -> None:
        if self._driver is not None:
            self._driver.close()

    def check(self) -> None:
        """By the account that reads: one that may only insert is not shown all columns."""
        contract = self._contract
        with closing(connect(address_of(self._reader))) as driver:
            columns = _columns(driver, contract.table)
            index = Catalogue.read(lambda sql, _: ask(driver, sql), contract.table).key_index(self._key)
        self._index = index.name if index else ""
        known = {column.name.lower(): column for column in columns}
        surrogate = known.get(contract.surrogate_key.lower())
        if surrogate is None or not surrogate.counts_itself:
            raise BadContract(
                f"{contract.table}.{contract.surrogate_key} gets no value by itself, so a placeholder row would have "
                f"no surrogate key. Make it AUTO_INCREMENT (MariaDB: or DEFAULT NEXTVAL of a sequence), or leave "
                f"[inferred] out of dimension {contract.name}'s contract."
            )
        if unknown := [name for name in self._values if name.lower() not in known]:
            raise BadContract(
                f"dimension {contract.name}: [inferred] names {unknown[0]}, which {contract.table} does not have."
            )
        updated = known.get(contract.updated_at.lower())
        self._tells_time = updated is not None and updated.is_needed and contract.updated_at not in self._values
        given = {name.lower() for name in (*self._values, *self._key, contract.surrogate_key)}
        given |= {contract.updated_at.lower()} if self._tells_time else set()
        if lacking := [column.name for column in columns if column.is_needed and column.name.lower() not in given]:
            raise BadContract(
                f"{contract.table}.{lacking[0]} is NOT NULL and has no default. Name it in [inferred] of dimension "
                f'{contract.name}\'s contract, with what a placeholder row has there: {lacking[0]} = "not known yet".'
            )

    def insert(self, key: Key) -> Inserted:
        return self._ask(key, "VALUES ({})")

    def _ask(self, key: Key, what: str) -> Inserted:
        assert self._driver is not None, "is asked within its block"
        names = [quoted(name) for name in (*self._key, *self._values)]
        values = [_literal(value) for value in (*key, *self._values.values())]
        if self._tells_time:
            names, values = [*names, quoted(self._contract.updated_at)], [*values, "NOW(6)"]
        into = f"{quoted(self._contract.table)} ({', '.join(names)})"
        try:
            ask(self._driver, f"INSERT INTO {into} {what.format(', '.join(values))}")
        except pymysql.MySQLError as error:
            return self._told(error)
        except OSError as error:
            raise self._broken(error) from error
        return Inserted(Outcome.INSERTED)

    def _told(self, error: pymysql.MySQLError) -> Inserted:
        number = error.args[0] if error.args else 0
        named = _OF_INDEX.search(str(error.args[-1]))
        if number == _DUPLICATE and named and named[1] == self._index:
            return Inserted(Outcome.THERE, str(error))
        if number in _DENIED:
            raise BadSetting(
                f"inferred.user = {self._writer.user} may not insert into {self._contract.table}: {error}. "
                f"`millrace grants mysql` prints what it needs."
            ) from error
        if not number or number in _NO_ROWS_OWN:
            raise self._broken(error) from error
        return Inserted(Outcome.REFUSED, str(error))

    def _broken(self, error: Exception) -> MasterReadFailed:
        return MasterReadFailed(
            f"placeholder rows cannot be inserted into {self._contract.table}: {error}. Those that are there stay; "
            f"run it again when the server answers."
        )

    @property
    def _key(self) -> list[str]:
        return [part.column for part in self._contract.natural_key]


def _columns(driver: SocketDriver, table: str) -> list[_Column]:
    rows = ask(
        driver,
        "SELECT COLUMN_NAME, IS_NULLABLE, COLUMN_DEFAULT, EXTRA FROM information_schema.COLUMNS "
        f"WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = {text(table)}",
    )
    found = []
    for name, nullable, default, extra in ([(value or b"").decode() for value in row] for row in rows):
        fills_itself = bool(default) or "auto_increment" in extra or "GENERATED" in extra.upper()
        counts = "auto_increment" in extra or "nextval(" in default.lower()
        found.append(_Column(name, nullable == "NO" and not fills_itself, counts))
    return found


def _literal(value: Value | bytes | None) -> str:
    """
    >>> _literal(True), _literal(-7), _literal("a'b"), _literal(b"a"), _literal(None)
    ('1', '-7', "_utf8mb4 x'612762'", "x'61'", 'NULL')
    """
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    return text(value) if isinstance(value, str) else repr(int(value) if isinstance(value, bool) else value)
