"""The two MySQL drivers behind one small face: a statement goes in, rows of raw bytes come out.

Neither driver converts a value: Arrow parses whole columns of text later at a fraction of the cost.
asyncmy answers look-ups fastest; pymysql stands in where asyncmy has no wheel, or where an event loop is running
already (a notebook), in which asyncmy's own could not.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

import pymysql

asyncmy: Any
try:
    import asyncmy
except ImportError:  # no wheel for this platform
    asyncmy = None

Row = tuple["bytes | None", ...]
T = TypeVar("T")

_INSECURE_TRANSPORT = 3159  # the server's number for "only over TLS"
_FAREWELL = 1.0  # seconds to say good-bye to a server that may be gone


@dataclass(frozen=True)
class Address:
    """Everything a driver needs to open a connection."""

    host: str
    port: int
    user: str
    password: str
    database: str
    tls: ssl.SSLContext | None
    connect_timeout: float
    read_timeout: float


class Driver(Protocol):
    """An open connection."""

    def query(self, sql: str) -> Sequence[Row]: ...

    def close(self) -> None: ...


def connect(address: Address) -> Driver:
    """The fastest driver that can work here."""
    if asyncmy is None or _loop_is_running():
        return PymysqlDriver(address)
    try:
        return AsyncmyDriver(address)
    except Exception as error:
        if address.tls is not None or not _wants_tls(error):
            raise
        # Do what MySQL's own client does when nothing was said about certificates: TLS, whatever the server's.
        return AsyncmyDriver(replace(address, tls=_unverified_tls()))


def _wants_tls(error: Exception) -> bool:
    """The server insists on TLS, or its log-in (caching_sha2_password) sends the password only through TLS or RSA, and
    the package for RSA is not there."""
    return error.args[:1] == (_INSECURE_TRANSPORT,) or "cryptography" in str(error)


class AsyncmyDriver:
    """asyncmy, driven to completion on an event loop of its own."""

    def __init__(self, address: Address) -> None:
        self._read_timeout = address.read_timeout
        self._loop = asyncio.new_event_loop()
        try:
            self._connection = self._run(self._connected(address), 2 * address.connect_timeout)
        except BaseException:
            self._loop.close()
            raise

    def query(self, sql: str) -> Sequence[Row]:
        return self._run(self._answer(sql), self._read_timeout)

    def close(self) -> None:
        try:
            self._run(self._connection.ensure_closed(), _FAREWELL)
        finally:
            self._loop.close()

    @staticmethod
    async def _connected(address: Address) -> Any:
        return await asyncmy.connect(
            host=address.host,
            port=address.port,
            user=address.user,
            password=address.password.encode(),
            database=address.database,
            ssl=address.tls,
            connect_timeout=address.connect_timeout,
            charset="utf8mb4",
            use_unicode=False,
            conv={},
            autocommit=None,
        )

    async def _answer(self, sql: str) -> Sequence[Row]:
        cursor = self._connection.cursor()
        await cursor.execute(sql)
        rows: Sequence[Row] = await cursor.fetchall()
        self._connection._result = None  # or it would keep the rows until the next query
        return rows

    def _run(self, work: Coroutine[Any, Any, T], timeout: float) -> T:
        # One deadline for the whole of it: the driver's own read timeout starts anew with every chunk.
        return self._loop.run_until_complete(asyncio.wait_for(work, timeout))


class PymysqlDriver:
    """pymysql, in pure Python."""

    def __init__(self, address: Address) -> None:
        self._connection = pymysql.connect(
            host=address.host,
            port=address.port,
            user=address.user,
            password=address.password.encode(),
            database=address.database,
            ssl=address.tls,
            connect_timeout=max(1, round(address.connect_timeout)),
            read_timeout=address.read_timeout,
            write_timeout=address.read_timeout,
            charset="utf8mb4",
            use_unicode=False,
            conv={},
            autocommit=None,
        )

    def query(self, sql: str) -> Sequence[Row]:
        with self._connection.cursor() as cursor:
            cursor.execute(sql)
            rows: Sequence[Row] = cursor.fetchall()
            return rows

    def close(self) -> None:
        self._connection.close()


def _loop_is_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _unverified_tls() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
