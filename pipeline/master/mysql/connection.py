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
from functools import partial
from pathlib import Path

from pipeline.config.settings import MasterData
from pipeline.errors import BadSetting, MasterReadFailed
from pipeline.master.mysql import drivers, ready
from pipeline.master.mysql.allowance import Taken
from pipeline.master.mysql.drivers import Driver, Row, ask
from pipeline.master.mysql.faults import is_passing, remedy_of
from pipeline.master.mysql.session import Address
from pipeline.master.mysql.wire import Columns
from pipeline.master.port import ReadCount

log = logging.getLogger("millrace.master")

_FIRST_DELAY = 0.05  # seconds before the second attempt; doubles from there
_LONGEST_DELAY = 5.0
_FIRST_WORD, _WORD_EVERY = 1.0, 5.0  # seconds of waiting until it is told, and told again
_IDLE = 30.0  # a connection unused for longer may have been cut by a firewall without a word: open a new one


@dataclass(frozen=True)
class Means:
    """What a connection needs of the world: somebody to open it, and the time."""

    connect: Callable[[Address], Driver] = drivers.connect
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


class Connection:
    """Runs statements, each until it succeeds or `settings.retry_for` is over. Every statement must be a read."""

    def __init__(self, settings: MasterData, allow: Callable[[int], Taken], means: Means) -> None:
        """`allow` waits until a statement with so many rows may begin: those that make a session ready count too."""
        self.largest_statement = 1 << 20  # bytes; the server's own limit, once connected
        self._settings = settings
        self._allow = allow
        self._connect, self._clock, self._sleep = means.connect, means.clock, means.sleep
        self._driver: Driver | None = None
        self._owner = 0  # the process that opened the driver
        self._used_at = 0.0
        self._statement, self._rows = "", 0
        self._taken: Taken | None = None  # of the contract, by the statement under way
        self._under_way = False  # the statement was sent, and its answer not yet received
        self._not_sent: Exception | None = None

    @property
    def is_open(self) -> bool:
        return self._driver is not None

    def send(self, sql: str, rows: int) -> None:
        """Let the server begin, and do not wait. If that fails, `receive` tells, or tries again."""
        self._statement, self._rows, self._not_sent = sql, rows, None
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
        self._answered(None)
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
        self._answered(len(columns[0]) if columns else 0)
        self._used_at = self._clock()
        return columns

    def _answered(self, rows: int | None) -> None:
        if self._taken is not None:
            self._taken.answered(rows)
        self._taken = None

    def _begin(self) -> None:
        idle = self._clock() - self._used_at
        if self._driver is not None and (self._owner != os.getpid() or idle > _IDLE):
            self.close()
        if self._driver is None:
            self._open()
        assert self._driver is not None
        self._taken = self._allow(self._rows)
        try:
            self._driver.send(self._statement)
        except BaseException:
            self.close()
            raise
        self._under_way = True

    def _open(self) -> None:
        self._owner = os.getpid()
        taken = self._allow(0)  # the log-in sets the character set
        try:
            driver = self._connect(address_of(self._settings))
        finally:
            taken.answered(0)
        try:
            largest = ready.made_ready(partial(self._ask, driver), self._settings.read_timeout)
        except BaseException:
            with suppress(Exception):
                driver.close()
            raise
        self.largest_statement = largest - 1024  # the packet's own header, generously
        self._driver = driver

    def _ask(self, driver: Driver, statement: str) -> list[Row]:
        taken = self._allow(1)
        rows: list[Row] = []
        try:
            rows = ask(driver, statement)
        finally:
            taken.answered(len(rows))
        return rows

    def _where(self, purpose: str) -> str:
        s = self._settings
        return f"{purpose} failed on {s.user}@{s.host}:{s.port}/{s.database}"


_INHERITED: list[Driver] = []  # kept, so that no finaliser runs


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
