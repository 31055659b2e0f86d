"""Follows the binary log: which keys of which dimensions have changed."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Generator, Mapping
from contextlib import closing

import pyarrow as pa
import pymysql

from pipeline.config.contracts import DimensionContract
from pipeline.config.settings import MasterData
from pipeline.master.feed import Changes
from pipeline.master.mysql.binlog import events
from pipeline.master.mysql.binlog.events import Event, EventStream, LogDamaged, Place
from pipeline.master.mysql.binlog.rows import Values, wanted_values
from pipeline.master.mysql.binlog.server import LogServer, is_place_gone
from pipeline.master.mysql.binlog.statements import BRACKETS, concerns, ends_transaction, statement_of
from pipeline.master.mysql.binlog.tables import LoggedTable, logged_table, table_number
from pipeline.master.mysql.binlog.target import Target
from pipeline.master.mysql.catalogue import Catalogue
from pipeline.master.mysql.connection import address_of
from pipeline.master.mysql.drivers import SocketDriver, ask, connect
from pipeline.master.mysql.literals import quoted

log = logging.getLogger("millrace.feed")

_SILENCE = 10.0  # seconds without even a heartbeat: the connection is gone
_GATHER = 0.01  # seconds in which more may come, so that busy times do not make a piece of every transaction
_MOST_KEYS = 100_000  # of a dimension in one piece; more are told as all of it
_MOST_TABLES = 1_000  # whose descriptions are remembered
_ROWS = {*events.WRITES, *events.UPDATES, *events.DELETES}
_UNREADABLE = {events.LOAD_QUERY, events.INCIDENT, *events.COMPRESSED}


class BinlogFeed:
    """The feed of a MySQL or MariaDB server whose log has rows (`binlog_format = ROW`)."""

    def __init__(self, settings: MasterData, dimensions: Mapping[str, DimensionContract]) -> None:
        self._settings, self._dimensions = settings, dimensions
        self._server = LogServer(settings)
        self._targets: dict[tuple[str, str], list[Target]] = {}
        self._tables: dict[int, tuple[bytes, LoggedTable, list[Target]]] = {}
        self._catalogue_is_old = True
        self._found: dict[Target, list[Values]] = defaultdict(list)
        self._all_of: set[str] = set()
        self._altered: set[str] = set()
        self._told: set[str] = set()  # reasons that were logged
        self._place, self._at = Place("", "", 0), 0.0
        self._logs_all, self._whole = False, set[str]()  # dimensions of which no key changes without a row in the log
        self._until = 0.0  # Unix time up to which all that was logged is told

    def follow(self, place: str = "") -> Generator[Changes, None, None]:
        with closing(connect(address_of(self._settings))) as driver, self._server.denials_told():
            try:
                yield from self._follow(driver, place)
            except pymysql.MySQLError as error:
                if not (is_place_gone(error) and place):
                    raise
                log.warning("the server's log no longer has what came after %s (%s)", place, error)
                yield from self.follow()

    def _follow(self, driver: SocketDriver, place: str) -> Generator[Changes, None, None]:
        server = self._server.require_rows(driver)
        self._place = Place.parse(place) if place else self._server.now(driver, server)
        if not self._place.is_of(server):
            log.warning("%s is another server than before: its log is followed from now on", self._server.where)
            place, self._place = "", self._server.now(driver, server)
        self._logs_all = self._server.logs_all(driver)
        self._read_catalogue()
        self._found.clear()  # of a transaction that was broken off: it will be told whole
        if not place:
            yield Changes(all_of=frozenset(self._dimensions), place=str(self._place))
        stream, waits_since = EventStream(driver, self._place, _SILENCE), time.time()
        for event in stream.events():
            waited_since, waits_since = waits_since, time.time()
            if event is None:
                piece = self._told_so_far(caught_up=True)
                yield piece
                if piece.keys:
                    time.sleep(_GATHER)
                continue
            try:
                self._note(event)
                ends = ends_transaction(event)
            except events.UNREADABLE as error:
                raise LogDamaged.near(f"{stream.file}:{stream.offset}", error) from error
            if event.kind in events.HEARTBEATS:  # which the server sends when there is nothing more
                self._until = waited_since
            if ends:
                self._place, self._at = Place(server, stream.file, stream.offset), float(event.at)
                now = time.time()
                before = self._until if self._until <= now else 0.0  # else the clock was set back
                self._until = max(before, min(self._at, now))
                if len(self._tables) >= _MOST_TABLES:
                    self._tables.clear()  # not before: rows may still come of several tables
                if sum(map(len, self._found.values())) >= _MOST_KEYS:
                    yield self._told_so_far(caught_up=False)

    def _note(self, event: Event) -> None:
        kind, body = event.kind, event.body
        if kind == events.TABLE_MAP:
            self._describe(body)
        elif kind in _ROWS:
            self._rows(kind, body)
        elif kind == events.PARTIAL_UPDATES:
            _, targets = self._described(body)
            self._all("binlog_row_value_options = PARTIAL_JSON", *targets)
        elif kind == events.QUERY:
            self._query(statement_of(body))
        elif kind in _UNREADABLE:
            self._everything(f"an event of kind {kind}, which is not read")

    def _describe(self, body: bytes) -> None:
        number = table_number(body)
        if number in self._tables and self._tables[number][0] == body:
            return
        if self._catalogue_is_old:
            self._read_catalogue()
        table = logged_table(body)
        targets = self._targets.get((table.database.casefold(), table.name.casefold()), [])
        self._tables[number] = (body, table, targets)

    def _described(self, body: bytes) -> tuple[LoggedTable, list[Target]]:
        """The table that these rows are of."""
        try:
            _, table, targets = self._tables[table_number(body)]
        except KeyError:
            raise LogDamaged(
                f"the binary log near {self._place} has rows of a table that it did not describe"
            ) from None
        return table, targets

    def _rows(self, kind: int, body: bytes) -> None:
        table, targets = self._described(body)
        for target in targets:
            if not target.fits(table):
                self._all("rows from before the table was altered, or with a type of column not known here", target)
                continue
            values = wanted_values(kind, body, table, target.wanted)
            if values is None:
                self._all("binlog_row_image is not FULL, and the key is not in the log", target)
            elif len(self._found[target]) + len(values) > _MOST_KEYS:
                self._all("", target)
            else:
                self._found[target] += values

    def _query(self, statement: bytes) -> None:
        """Rows changed by a statement, a table altered or emptied: no keys are named."""
        if statement.startswith(b"XA COMMIT"):
            # Its rows stood in the log when it was prepared, and are seen only now.
            self._everything("XA transactions")
            return
        if statement.startswith(BRACKETS):
            return
        for dimension in self._dimensions.values():
            if concerns(statement, dimension.table):
                self._all_of.add(dimension.name)
                self._altered.add(dimension.name)
                self._catalogue_is_old = True
                self._tables.clear()

    def _all(self, why: str, *targets: Target) -> None:
        for target in targets:
            self._all_of.add(target.dimension)
            self._found.pop(target, None)
            if why and (said := f"{target.dimension}: {why}") not in self._told:
                self._told.add(said)
                log.warning("%s: all its rows in memory are forgotten at each change", said)

    def _everything(self, why: str) -> None:
        self._all_of.update(self._dimensions)
        if why not in self._told:
            self._told.add(why)
            log.warning("the binary log has %s: all master rows in memory are forgotten each time", why)

    def _told_so_far(self, caught_up: bool) -> Changes:
        found: dict[str, pa.Array] = {}
        for target, values in list(self._found.items()):
            try:
                found[target.dimension] = target.keys(values)
            except ValueError as error:
                self._all(f"a key cannot be read ({error})", target)
        changes = Changes(
            {name: keys for name, keys in found.items() if name not in self._all_of},
            frozenset(self._all_of),
            frozenset(self._altered),
            str(self._place),
            dict.fromkeys(self._whole, self._until),
            0.0 if caught_up else self._at,
        )
        self._found.clear()
        self._all_of.clear()
        self._altered.clear()
        return changes

    def _read_catalogue(self) -> None:
        self._targets, self._whole = {}, set()
        with closing(connect(address_of(self._settings))) as driver:
            for contract in self._dimensions.values():
                catalogue = Catalogue.read(lambda sql, _: ask(driver, sql), contract.table)
                if target := Target.of(contract, catalogue):
                    at = (self._settings.database.casefold(), contract.table.casefold())
                    self._targets.setdefault(at, []).append(target)
                    if self._logs_all and not _changes_by_cascade(driver, contract.table):
                        self._whole.add(contract.name)
        self._catalogue_is_old = False


def _changes_by_cascade(driver: SocketDriver, table: str) -> bool:
    """Whether a foreign key may give its rows other values, which few servers log; if that is not known, too."""
    try:
        [(_, statement, *_)] = ask(driver, f"SHOW CREATE TABLE {quoted(table)}")
    except pymysql.MySQLError:  # an account that may read some columns is not shown the table
        return True
    return b"ON UPDATE CASCADE" in (statement or b"").upper()
