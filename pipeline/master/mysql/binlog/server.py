"""What a server says of its log: whether it has rows, by which name it is known, where it ends now."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone

import pymysql

from pipeline.config.settings import MasterData
from pipeline.errors import FeedRefused
from pipeline.master.mysql.binlog.events import Place
from pipeline.master.mysql.drivers import Row, SocketDriver, ask

_NO_SUCH_STATEMENT, _NO_SUCH_PLACE = 1064, 1236
_DENIED = (1045, 1227)
_GRANT = "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO the account of master.user"
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class LogServer:
    def __init__(self, settings: MasterData) -> None:
        self.where = f"{settings.user}@{settings.host}:{settings.port}"

    @contextmanager
    def denials_told(self) -> Iterator[None]:
        """A right that is missing is told with the statement that gives it."""
        try:
            yield
        except pymysql.MySQLError as error:
            if error.args[0] not in _DENIED:
                raise
            raise FeedRefused(f"{self.where} does not let its log be followed: {error}. {_GRANT}.") from error

    def require_rows(self, driver: SocketDriver) -> str:
        """That there is a log, and of rows; by which name the server is known."""
        known = variables(driver, "log_bin", "binlog_format", "server_uuid", "server_uid", "hostname", "server_id")
        if known.get("log_bin") != "ON":
            raise FeedRefused(self._no_log)
        if (form := known.get("binlog_format", "ROW")) != "ROW":
            raise FeedRefused(f"{self.where} has binlog_format = {form}; it must be ROW.")
        # MariaDB's server_uid is made of the network card's address and the port, which two containers may have alike.
        own = known.get("server_uuid") or f"{known.get('server_uid') or known['hostname']}.{known['server_id']}"
        return own.replace("/", "_")

    def now(self, driver: SocketDriver, server: str) -> Place:
        file, offset, *_ = self._status(driver)
        return Place(server, _text(file), int(offset or 0))

    def logs_all(self, driver: SocketDriver) -> bool:
        """Whether every row that changes here has to be in the log: none is filtered out, and what other servers send
        is logged again, or nothing was ever sent. MySQL logs it unless told not to, MariaDB only if told to."""
        _, _, only, without, *_ = self._status(driver)
        known = variables(driver, "log_replica_updates", "log_slave_updates", "gtid_slave_pos", "wsrep_on")
        logs_again = "ON" in (known.get("log_replica_updates"), known.get("log_slave_updates"))
        stands_alone = known.get("gtid_slave_pos") == "" and known.get("wsrep_on", "OFF") == "OFF"
        return not only and not without and (logs_again or stands_alone)

    def _status(self, driver: SocketDriver) -> Row:
        try:
            rows = ask(driver, "SHOW BINARY LOG STATUS")
        except pymysql.MySQLError as error:
            if error.args[:1] != (_NO_SUCH_STATEMENT,):
                raise
            rows = ask(driver, "SHOW MASTER STATUS")  # as older servers and MariaDB call it
        if not rows:
            raise FeedRefused(self._no_log)
        return rows[0]

    def files(self, driver: SocketDriver) -> set[str]:
        """Those that the log still has."""
        return {_text(row[0]) for row in ask(driver, "SHOW BINARY LOGS")}

    def keeps_for(self, driver: SocketDriver) -> int:
        """Seconds; 0: for ever."""
        known = variables(driver, "binlog_expire_logs_seconds", "binlog_expire_logs_auto_purge")
        is_purged = known.get("binlog_expire_logs_auto_purge", "ON") == "ON"
        return int(known.get("binlog_expire_logs_seconds", "0")) if is_purged else 0

    @property
    def _no_log(self) -> str:
        return f"{self.where} writes no binary log. Start it with log_bin and a server_id, or set master.feed to off."


def variables(driver: SocketDriver, *names: str) -> dict[str, str]:
    """Of the server, those that it knows."""
    listed = ", ".join(f"'{name}'" for name in names)
    rows = ask(driver, f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({listed})")
    return {_text(name): _text(value) for name, value in rows}


def clock(driver: SocketDriver) -> datetime:
    [(now,)] = ask(driver, "SELECT CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS SIGNED)")
    return moment(int(now or 0))


def moment(microseconds: int) -> datetime:
    """Since 1970. Not by way of a float, which has not enough digits."""
    return _EPOCH + timedelta(microseconds=microseconds)


def is_place_gone(error: Exception) -> bool:
    return isinstance(error, pymysql.MySQLError) and error.args[:1] == (_NO_SUCH_PLACE,)


def _text(value: bytes | None) -> str:
    return (value or b"").decode()
