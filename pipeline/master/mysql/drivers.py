"""An open connection to MySQL or MariaDB: a statement goes in, columns of raw bytes come out."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from pipeline.master.mysql.session import Address, Session, lacks_rsa
from pipeline.master.mysql.wire import Columns, Wire

Row = tuple["bytes | None", ...]
Query = Callable[[str, str], list[Row]]  # a statement and its purpose

_INSECURE_TRANSPORT = 3159  # the server's number for "only over TLS"


class Driver(Protocol):
    """An open connection, on which one statement is under way at a time."""

    def send(self, sql: str) -> None: ...

    def receive(self) -> Columns: ...

    def close(self) -> None: ...


def connect(address: Address) -> SocketDriver:
    try:
        return SocketDriver(address)
    except Exception as error:
        if address.tls is not None or not _wants_tls(error):
            raise
        # Do what MySQL's own client does when nothing was said about certificates: TLS, whatever the server's.
        return SocketDriver(replace(address, tls=_unverified_tls()))


def ask(driver: Driver, sql: str) -> list[Row]:
    """A statement's answer as rows: for the few that describe something."""
    driver.send(sql)
    return as_rows(driver.receive())


def as_rows(columns: Columns) -> list[Row]:
    return list(zip(*(column.to_pylist() for column in columns), strict=True))


class SocketDriver:
    """The socket of a session, and the session that it is the socket of."""

    def __init__(self, address: Address) -> None:
        self._session = Session(address)
        self._wire = Wire(self._session.socket, address.read_timeout)

    @property
    def socket(self) -> socket.socket:
        """For one who goes on in the protocol of replicas: no statement is sent any more then."""
        return self._session.socket

    def send(self, sql: str) -> None:
        self._wire.send(sql)

    def receive(self) -> Columns:
        return self._wire.receive()

    def close(self) -> None:
        self._session.close()


def _wants_tls(error: Exception) -> bool:
    return error.args[:1] == (_INSECURE_TRANSPORT,) or lacks_rsa(error)


def _unverified_tls() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # the default one would read all authorities, for nothing
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
