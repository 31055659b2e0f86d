"""One read-only session with the master database: opened at the first read, opened again when it breaks; what may pass
is tried again."""

from __future__ import annotations

import logging
import os
import random
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pipeline.config.settings import MasterData
from pipeline.errors import BadSetting, MasterReadFailed
from pipeline.master.mysql import drivers
from pipeline.master.mysql.drivers import Driver, ask
from pipeline.master.mysql.faults import is_passing, remedy_of
from pipeline.master.mysql.pace import Pace
from pipeline.master.mysql.session import Address
from pipeline.master.mysql.wire import Columns
from pipeline.master.port import ReadCount

log = logging.getLogger("millrace.master")

_FIRST_DELAY = 0.05  # seconds before the second attempt; doubles from there
_LONGEST_DELAY = 5.0
_FIRST_WORD, _WORD_EVERY = 1.0, 5.0  # seconds of waiting until it is told, and told again
_IDLE = 30.0  # a connection unused for longer may have been cut by a firewall without a word: open a new one

# The database is in others' production use: we only read, one statement at a time on a fresh snapshot.
_EVERY_SESSION = (
    "SET NAMES utf8mb4",
    "SET SESSION autocommit = 1, time_zone = '+00:00', sql_mode = ''",
    "SET SESSION TRANSACTION READ ONLY",
)
# Long IN lists must stay ranges over the index: no limit on their memory (MySQL), no rewriting as a join (MariaDB). The
# server gives up a statement when we do. Each server knows some of these, and older ones fewer.
_IF_KNOWN = (
    "range_optimizer_max_mem_size = 0",
    "information_schema_stats_expiry = 0",
    "max_execution_time = {milliseconds}",
    "in_predicate_conversion_threshold = 0",
    "optimizer_max_sel_arg_weight = 0",
    "max_statement_time = {seconds}",
)
_UNKNOWN_VARIABLE = 1193


@dataclass(frozen=True)
class Means:
    """What a connection needs of the world: somebody to open it, and the time."""

    connect: Callable[[Address], Driver] = drivers.connect
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


class Connection:
    """Runs statements, each until it succeeds or `settings.retry_for` is over. Every statement must be a read."""

    def __init__(self, settings: MasterData, pace: Pace, means: Means) -> None:
        self.largest_statement = 1 << 20  # bytes; the server's own limit, once connected
        self._settings = settings
        self._pace = pace
        self._connect, self._clock, self._sleep = means.connect, means.clock, means.sleep
        self._driver: Driver | None = None
        self._owner = 0  # the process that opened the driver
        self._used_at = 0.0
        self._statement = ""
        self._under_way = False  # the statement was sent, and its answer not yet received
        self._not_sent: Exception | None = None

    def send(self, sql: str) -> None:
        """Let the server begin, and do not wait. If that fails, `receive` tells, or tries again."""
        self._statement, self._not_sent = sql, None
        try:
            self._begin()
        except Exception as error:  # noqa: BLE001 raised by receive()
            self._not_sent = error

    def receive(self, purpose: str, count: ReadCount) -> Columns:
        """The answer to the statement that was sent.

        `purpose` says in an error what it was for; `count` takes attempts that fail.
        """
        started = self._clock()
        deadline = started + self._settings.retry_for
        tell_at = started + _FIRST_WORD
        for attempt, delay in enumerate(_delays(), start=1):
            try:
                answer = self._answer()
                if tell_at > started + _FIRST_WORD:
                    log.info("%s:%d answers again", self._settings.host, self._settings.port)
                return answer
            except Exception as error:  # the drivers' errors share no base; none is swallowed
                count.failures += 1
                waited = self._clock() - started
                if not is_passing(error):
                    raise MasterReadFailed(f"{self._where(purpose)}: {error}. {remedy_of(error)}") from error
                if self._clock() >= deadline:
                    raise MasterReadFailed(self._gave_up(purpose, attempt, waited, error)) from error
                if self._clock() >= tell_at:
                    tell_at = self._clock() + _WORD_EVERY
                    left = deadline - self._clock()
                    log.warning("%s: %s; trying again for %.0f s more", self._where(purpose), error, left)
                self._sleep(min(delay, max(0.0, deadline - self._clock())))
        raise AssertionError("the delays never end")

    def _gave_up(self, purpose: str, attempts: int, waited: float, error: Exception) -> str:
        retry_for = self._settings.retry_for
        if retry_for <= 0:
            return (
                f"{self._where(purpose)}: {error}. It was not tried again. "
                "Start the server, or correct master.host and master.port."
            )
        times = "once" if attempts == 1 else f"{attempts} times"
        return (
            f"{self._where(purpose)} {times} in {waited:.1f} s, then gave up. Last error: {error}. "
            f"Bring the server back, or raise master.retry_for (now {retry_for})."
        )

    def close(self) -> None:
        """Also the way out of a statement whose answer is not wanted any more."""
        driver, self._driver = self._driver, None
        self._under_way = False
        if driver is not None and self._owner == os.getpid():
            with suppress(Exception):  # the other side may be gone; nothing is lost by not saying good-bye
                driver.close()
        elif driver is not None:
            # Inherited by a fork: closing it here would end the parent's session.
            _INHERITED.append(driver)

    def _answer(self) -> Columns:
        if self._not_sent is not None:
            error, self._not_sent = self._not_sent, None
            raise error
        if self._owner != os.getpid():
            self.close()
        if not self._under_way:
            self._begin()
        assert self._driver is not None
        try:
            columns = self._driver.receive()
        except BaseException:  # an interrupt too leaves half an answer in the connection
            self.close()
            raise
        self._under_way = False
        self._used_at = self._clock()
        return columns

    def _begin(self) -> None:
        idle = self._clock() - self._used_at
        if self._driver is not None and (self._owner != os.getpid() or idle > _IDLE):
            self.close()
        self._pace.wait()
        if self._driver is None:
            self._open()
        assert self._driver is not None
        try:
            self._driver.send(self._statement)
        except BaseException:
            self.close()
            raise
        self._under_way = True

    def _open(self) -> None:
        self._owner = os.getpid()
        driver = self._connect(address_of(self._settings))
        try:
            for statement in _EVERY_SESSION:
                ask(driver, statement)
            for variable in _IF_KNOWN:
                _set_if_known(driver, variable, self._settings.read_timeout)
            [(largest,)] = ask(driver, "SELECT @@max_allowed_packet")
        except BaseException:
            with suppress(Exception):
                driver.close()
            raise
        self.largest_statement = int(largest or 0) - 1024  # the packet's own header, generously
        self._driver = driver

    def _where(self, purpose: str) -> str:
        s = self._settings
        return f"{purpose} failed on {s.user}@{s.host}:{s.port}/{s.database}"


_INHERITED: list[Driver] = []  # kept, so that no finaliser runs


def _set_if_known(driver: Driver, variable: str, timeout: float) -> None:
    try:
        ask(driver, "SET SESSION " + variable.format(seconds=float(timeout), milliseconds=round(timeout * 1000)))
    except Exception as error:
        if error.args[:1] != (_UNKNOWN_VARIABLE,):
            raise


def _delays() -> Iterator[float]:
    """Twice as long each time, and not in step with the other workers."""
    delay = _FIRST_DELAY
    while True:
        yield delay * random.uniform(0.5, 1.0)
        delay = min(2 * delay, _LONGEST_DELAY)


def address_of(settings: MasterData) -> Address:
    return Address(
        host=settings.host,
        port=settings.port,
        user=settings.user,
        password=_password(settings),
        database=settings.database,
        tls=_tls(settings),
        connect_timeout=settings.connect_timeout,
        read_timeout=settings.read_timeout,
    )


def _password(settings: MasterData) -> str:
    if not settings.password_file:
        return str(settings.password)
    try:
        return Path(settings.password_file).read_text("utf-8").rstrip("\r\n")
    except (OSError, ValueError) as error:
        raise BadSetting(f"master.password_file = {settings.password_file} cannot be read: {error}.") from error


def _tls(settings: MasterData) -> ssl.SSLContext | None:
    if not settings.tls_ca:
        return None
    try:
        return ssl.create_default_context(cafile=settings.tls_ca)
    except (OSError, ssl.SSLError) as error:
        raise BadSetting(f"master.tls_ca = {settings.tls_ca} is no readable file of certificates: {error}.") from error
