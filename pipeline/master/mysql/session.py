"""A session that pymysql opens, since it knows every way to log in. From then on its socket is ours (see `wire.py`).

Here stands all that is used of pymysql without being documented. `tests/master/test_pymysql.py` names each of these
things, and fails with a sentence where another version has changed it.
"""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass
from typing import cast

import pymysql


@dataclass(frozen=True)
class Address:
    """Everything that is needed to open a session."""

    host: str
    port: int
    user: str
    password: str
    database: str
    tls: ssl.SSLContext | None
    connect_timeout: float
    read_timeout: float


class Session:
    """Logged in, with nothing sent that is not answered and nothing received that is not read."""

    def __init__(self, address: Address) -> None:
        self._session = pymysql.connect(
            host=address.host,
            port=address.port,
            user=address.user,
            password=address.password.encode(),
            database=address.database,
            ssl=address.tls,
            ssl_disabled=address.tls is None,
            connect_timeout=address.connect_timeout,
            read_timeout=2 * address.connect_timeout,  # of the log-in's answers
            write_timeout=address.read_timeout,
            charset="utf8mb4",
            autocommit=None,
        )

    @property
    def socket(self) -> socket.socket:
        """Encrypted, if the session is."""
        return cast(socket.socket, self._session._sock)

    def close(self) -> None:
        """Say good-bye, and close the socket."""
        self._session.close()


def beneath(error: BaseException) -> BaseException | None:
    """What the operating system or TLS said, when no session could be opened."""
    return cast("BaseException | None", getattr(error, "original_exception", None))


def lacks_rsa(error: BaseException) -> bool:
    """Whether the server's log-in (caching_sha2_password) sends the password only through TLS or RSA, and the package
    for RSA is not there."""
    return "cryptography" in str(error)


def refusal(packet: bytes) -> pymysql.MySQLError:
    """The error in a server's packet: a number, and what the server says."""
    number = int.from_bytes(packet[1:3], "little")
    text = packet[9:] if packet[3:4] == b"#" else packet[3:]  # behind the mark, five bytes of SQL state
    return pymysql.OperationalError(number, text.decode("utf-8", "replace"))
