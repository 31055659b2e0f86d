"""Follows the binary log for one table's rows, as they were and as they are, in the order in which they were committed.

A transaction may be larger than memory, so it is told in pieces; who goes on in its middle says how many of its changes
are known. What the log does not tell row by row (a table altered or emptied, a statement logged as such, a prepared
transaction, a row image that is not whole) ends the telling: only a look at the table itself helps then.
"""

from __future__ import annotations

import re
import time
from collections.abc import Generator
from contextlib import closing
from datetime import datetime

import pymysql

from pipeline.config.contracts import DimensionContract
from pipeline.config.settings import MasterData
from pipeline.errors import FeedRefused
from pipeline.master.images import Beginning, Kept, RowChange, Told, Upto
from pipeline.master.mysql.binlog import events
from pipeline.master.mysql.binlog.events import Event, EventStream, LogDamaged, Place
from pipeline.master.mysql.binlog.layout import Layout
from pipeline.master.mysql.binlog.rows import Values, wanted_values
from pipeline.master.mysql.binlog.server import LogServer, clock, is_place_gone, moment, variables
from pipeline.master.mysql.binlog.statements import concerns_in, ends_transaction, statement_of
from pipeline.master.mysql.binlog.tables import LoggedTable, logged_table, table_number
from pipeline.master.mysql.catalogue import Catalogue
from pipeline.master.mysql.connection import address_of
from pipeline.master.mysql.drivers import SocketDriver, ask, connect

_SILENCE = 10.0  # seconds without even a heartbeat: the connection is gone
_MOST_CHANGES, _MOST_BYTES = 10_000, 16 << 20  # of a piece
_MOST_TABLES = 1_000  # whose descriptions are remembered
_ROWS = {*events.WRITES, *events.UPDATES, *events.DELETES}
_PURGED = "the server's log no longer has what came after"
# They change neither rows nor columns of a table that they name.
_HARMLESS = re.compile(
    rb"(GRANT|REVOKE|FLUSH|(ANALYZE|OPTIMIZE)\s+(LOCAL\s+|NO_WRITE_TO_BINLOG\s+)?TABLE|"
    rb"(CREATE|ALTER|DROP)\s[^(]*?(INDEX|TRIGGER|VIEW|PROCEDURE|FUNCTION|EVENT|USER|ROLE))\b",
    re.IGNORECASE,
)
_TABLES_THEMSELVES = re.compile(rb"(CREATE|ALTER|DROP)\s[^(`]*?TABLES?\b", re.IGNORECASE)


class LogImages:
    """Of a MySQL or MariaDB server whose log has rows, each with all its columns."""

    def __init__(self, settings: MasterData, contract: DimensionContract) -> None:
        self._settings, self._contract = settings, contract
        self._server = LogServer(settings)

    def begin(self) -> Beginning:
        with closing(connect(address_of(self._settings))) as driver, self._server.denials_told():
            server = self._server.require_rows(driver)
            self._require_whole_rows(driver)
            before = self._layout(driver).shape
            place, at = self._server.now(driver, server), clock(driver)
            # Rows logged between place and catalogue are read by the catalogue.
            while (shape := self._layout(driver).shape) != before:
                before, place, at = shape, self._server.now(driver, server), clock(driver)
            return Beginning(str(place), at, shape)

    def follow(self, upto: Upto, shape: str) -> Generator[Told, None, None]:
        with closing(connect(address_of(self._settings))) as driver, self._server.denials_told():
            server = self._server.require_rows(driver)
            place, layout = Place.parse(upto.place), self._layout(driver)
            if lost := self._is_other(place, server, layout, shape):
                yield Told((), upto, lost=lost)
                return
            reading = _Reading(layout, self._settings.database, upto, place)
            end = self._server.now(driver, server)
            try:
                yield from reading.told(EventStream(driver, place, _SILENCE), end)
            except pymysql.MySQLError as error:
                if not is_place_gone(error):
                    raise
                yield Told((), upto, lost=f"{_PURGED} {upto.place} ({error})")

    def kept(self, upto: Upto, shape: str) -> Kept:
        with closing(connect(address_of(self._settings))) as driver, self._server.denials_told():
            place, server = Place.parse(upto.place), self._server.require_rows(driver)
            lost = self._is_other(place, server, self._layout(driver), shape)
            if not lost and place.file not in self._server.files(driver):
                lost = f"{_PURGED} {upto.place}"
            return Kept(lost, self._server.keeps_for(driver))

    def _is_other(self, place: Place, server: str, layout: Layout, shape: str) -> str:
        if not place.is_of(server):
            return f"{self._server.where} is another server than before"
        return "" if layout.shape == shape else "table or contract has other columns than before"

    def _layout(self, driver: SocketDriver) -> Layout:
        return Layout.of(self._contract, Catalogue.read(lambda sql, _: ask(driver, sql), self._contract.table))

    def _require_whole_rows(self, driver: SocketDriver) -> None:
        known = variables(driver, "binlog_row_image", "log_bin_compress")
        if (image := known.get("binlog_row_image", "FULL")) != "FULL":
            raise FeedRefused(
                f"{self._server.where} has binlog_row_image = {image}, so its log has not all columns of a row that "
                f"changes. A history needs them: SET GLOBAL binlog_row_image = FULL (and in the server's settings)."
            )
        if known.get("log_bin_compress", "OFF") != "OFF":
            raise FeedRefused(
                f"{self._server.where} has log_bin_compress = ON, and compressed rows are not read here. A history "
                f"needs them: SET GLOBAL log_bin_compress = OFF."
            )


class _Lost(Exception):
    """What comes next cannot be told."""


class _Reading:
    """One connection's events as changes."""

    def __init__(self, layout: Layout, database: str, upto: Upto, place: Place) -> None:
        self._layout, self._database = layout, database.casefold()
        self._name = layout.contract.table
        self._tables: dict[int, tuple[LoggedTable, bool]] = {}
        self._begun, self._known = place, upto.changes  # the transaction at hand, and how much of it is known
        self._counted = 0  # changes in it so far
        self._at: datetime | None = None  # of it, where its first event says so
        self._told_until = 0.0  # Unix time
        self._is_inside = self._is_prepared = False
        self._found: list[tuple[Values | None, Values | None, Upto, datetime]] = []
        self._bytes = 0

    def told(self, stream: EventStream, end: Place) -> Generator[Told, None, None]:
        for event in stream.events():
            if event is None:
                if not (self._is_inside or self._known):
                    self._begin_at(Place(end.server, stream.file, stream.offset))
                yield self._piece(Place(end.server, stream.file, stream.offset).order >= end.order)
                continue
            try:
                self._note(event)
                ends = ends_transaction(event)
            except events.UNREADABLE as error:
                raise LogDamaged.near(f"{stream.file}:{stream.offset}", error) from error
            except _Lost as lost:
                self._found = [found for found in self._found if found[2].place != str(self._begun)]
                yield Told(self._changes(), Upto(str(self._begun), 0), lost=str(lost))
                return
            if ends:
                self._begin_at(Place(end.server, stream.file, stream.offset))
                self._told_until = float(event.at) or self._told_until
            elif event.kind in (events.HEARTBEAT, events.HEARTBEAT_V2):
                self._told_until = time.time()  # there was nothing more
            if len(self._found) >= _MOST_CHANGES or self._bytes >= _MOST_BYTES:
                yield self._piece(is_all=False)

    def _begin_at(self, place: Place) -> None:
        if place != self._begun:
            self._begun, self._known = place, 0
        self._counted, self._at = 0, None
        self._is_inside = self._is_prepared = False
        if len(self._tables) >= _MOST_TABLES:
            self._tables.clear()  # not before: rows may still come of several tables

    def _note(self, event: Event) -> None:
        kind, body = event.kind, event.body
        if kind in events.GTIDS:
            self._is_inside, self._at = True, moment(events.committed_at(event))
        elif kind == events.TABLE_MAP:
            self._is_inside = True
            table = logged_table(body)
            is_ours = (table.database.casefold(), table.name.casefold()) == (self._database, self._name.casefold())
            self._tables[table_number(body)] = table, is_ours
        elif kind in _ROWS:
            self._rows(event)
        elif kind == events.QUERY:
            self._query(body)
        elif kind in events.COMPRESSED_ROWS or kind == events.PARTIAL_UPDATES:
            if self._described(body)[1]:
                raise _Lost("the log has changes of its rows compressed, or parts of their JSON only")
        elif kind in (events.LOAD_QUERY, events.INCIDENT, events.COMPRESSED_QUERY):
            raise _Lost(f"the log has an event of kind {kind}, which may have changed it and names no rows")

    def _described(self, body: bytes) -> tuple[LoggedTable, bool]:
        try:
            return self._tables[table_number(body)]
        except KeyError:
            raise LogDamaged(
                f"the binary log near {self._begun} has rows of a table that it did not describe"
            ) from None

    def _rows(self, event: Event) -> None:
        table, is_ours = self._described(event.body)
        if not is_ours or self._is_prepared:
            return
        if not self._layout.fits(table):
            raise _Lost("the log has rows from before it was altered, or with a type of column not known here")
        values = wanted_values(event.kind, event.body, table, self._layout.wanted)
        if values is None:
            raise _Lost("the log has not all columns of a row that changed (binlog_row_image was not FULL)")
        at = self._at or moment(event.at * 1_000_000)
        self._bytes += len(event.body)
        if event.kind in events.UPDATES:
            pairs = zip(values[::2], values[1::2], strict=True)
        elif event.kind in events.WRITES:
            pairs = ((None, value) for value in values)  # type: ignore[assignment]
        else:
            pairs = ((value, None) for value in values)  # type: ignore[assignment]
        for before, after in pairs:
            self._counted += 1
            # What changed in columns that the contract does not name is no change here.
            if self._counted > self._known and before != after:
                self._found.append((before, after, Upto(str(self._begun), self._counted), at))

    def _query(self, body: bytes) -> None:
        statement = statement_of(body)
        if statement.startswith(b"XA START"):
            self._is_inside = self._is_prepared = True
        elif statement.startswith(b"XA COMMIT"):
            raise _Lost("a prepared transaction (XA) was committed, whose rows are elsewhere in the log")
        elif statement.startswith((b"BEGIN", b"SAVEPOINT", b"COMMIT", b"XA ")):
            self._is_inside = True
        elif statement.startswith(b"ROLLBACK"):
            if self._counted:
                raise _Lost("the log has rows that were rolled back again")
        elif concerns_in(self._database, body, self._name) and not _is_harmless(statement):
            raise _Lost(f"it was altered or changed by a statement: {statement[:60].decode('utf-8', 'replace')}")

    def _piece(self, is_all: bool) -> Told:
        upto = Upto(str(self._begun), max(self._counted, self._known))
        told = Told(self._changes(), upto, self._bytes, is_all, at=self._told_until)
        self._bytes = 0
        return told

    def _changes(self) -> list[RowChange]:
        rows = self._layout.rows([image for found in self._found for image in found[:2]])
        changes = [
            RowChange(before, after, position, at)
            for before, after, (_, _, position, at) in zip(rows[::2], rows[1::2], self._found, strict=True)
            if before is not None or after is not None
        ]
        self._found = []
        return changes


def _is_harmless(statement: bytes) -> bool:
    """
    >>> [_is_harmless(text) for text in (b"CREATE UNIQUE INDEX i ON t (a)", b"ALTER TABLE t ADD INDEX (a)")]
    [True, False]
    """
    return bool(_HARMLESS.match(statement)) and not _TABLES_THEMSELVES.match(statement)
