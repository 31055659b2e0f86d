"""One connection to one broker: encrypted and logged in if the settings say so; a question at a time is answered.

The words of the protocol and of SASL are kafka-python's. Its own connections are not used: they live in an event loop
of their own, and read 4 KiB at a time. Here an answer is read into one buffer, within a time, by whoever waits for it.
"""

from __future__ import annotations

import socket
import ssl
import struct
import time
from typing import Any

import numpy as np
from kafka.net.sasl import get_sasl_mechanism
from kafka.protocol.metadata import ApiVersionsRequest
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from pipeline.errors import BadSetting
from pipeline.kafka.client import Client, Login, Tls, tls_context

_WITHIN = 10.0  # seconds until more of an answer comes; who hangs is given up, and asked who leads now
_CONNECT_WITHIN = 10.0
_MOST = 256 << 20  # bytes of an answer; what says to be longer is not a broker's
_RENEWED_AT = 0.8  # of the time for which a broker lets a log-in count

FETCH, LIST_OFFSETS, METADATA = 10, 4, 7  # versions that brokers know since Kafka 2.1


class NotReached(Exception):
    """The broker does not answer (any more); another attempt may find it."""


class Connection:
    def __init__(self, client: Client, host: str, port: int) -> None:
        self.address = f"{host}:{port}"
        self._client, self._number = client, 0
        self._asked: list[tuple[int, Any]] = []
        self._good_until = float("inf")
        try:
            self._socket = socket.create_connection((host, port), _CONNECT_WITHIN)
        except OSError as error:
            raise NotReached(f"{self.address}: {error}") from error
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if client.tls:
                self._encrypt(client.tls, host)
            self._socket.settimeout(_WITHIN)
            self._greet()
            if client.login:
                self._log_in(client.login, host)
        except BaseException:
            self.close()
            raise

    @property
    def usable(self) -> bool:
        """Nothing is under way on it, and the broker still takes it."""
        return not self._asked and time.monotonic() < self._good_until

    def ask(self, request: Any) -> Any:
        self.send(request)
        return self.receive()

    def send(self, request: Any) -> None:
        self._number += 1
        request.with_header(self._number, self._client.name)
        try:
            self._socket.sendall(request.encode(framed=True, header=True))
        except OSError as error:
            raise NotReached(f"{self.address}: {error}") from error
        self._asked.append((self._number, request.header.get_response_class()))

    def receive(self) -> Any:
        """The answer to the oldest question."""
        number, kind = self._asked[0]
        (size,) = struct.unpack(">i", self._read(4))
        if not 4 <= size <= _MOST:
            raise BadSetting(
                f"{self.address} does not answer as a Kafka broker does: an answer of {size:,} bytes. If it wants "
                f"encryption, set security.protocol in [kafka.client]; else correct kafka.bootstrap."
            )
        answer = self._read(size)
        (said,) = struct.unpack_from(">i", answer)
        self._asked.pop(0)
        if said != number:
            raise NotReached(f"{self.address}: answers question {said} where {number} was asked")
        try:
            return kind.decode(answer[4:])
        except (ValueError, IndexError, struct.error, MemoryError) as error:
            raise NotReached(f"{self.address}: an answer cannot be understood ({error})") from error

    def close(self) -> None:
        self._good_until = 0.0
        self._socket.close()

    def _read(self, size: int) -> memoryview:
        data, at = np.empty(size, np.uint8).data, 0
        while at < size:
            try:
                got = self._socket.recv_into(data[at:])
            except OSError as error:
                raise NotReached(f"{self.address}: {error}") from error
            if not got:
                raise NotReached(f"{self.address}: the broker closed the connection")
            at += got
        return data

    def _encrypt(self, tls: Tls, host: str) -> None:
        try:
            context = tls_context(tls)
        except (OSError, ValueError) as error:
            raise BadSetting(
                f"the certificates in [kafka.client] cannot be used: {error}. Needed are PEM files that every worker "
                f"can read, or PEM itself."
            ) from error
        try:
            self._socket = context.wrap_socket(self._socket, server_hostname=host)
        except ssl.SSLCertVerificationError as error:
            raise BadSetting(
                f"{self.address}: the broker's certificate is not trusted ({error.verify_message}). Give its "
                f"authority in ssl.truststore.location, or its true name in kafka.bootstrap and advertised.listeners."
            ) from error
        except OSError as error:
            raise NotReached(f"{self.address}: no encrypted connection: {error}") from error

    def _greet(self) -> None:
        answer = self.ask(ApiVersionsRequest[0]())
        known = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
        for key, version in ((1, FETCH), (2, LIST_OFFSETS), (3, METADATA)):
            least, most = known.get(key, (0, -1))
            if not least <= version <= most:
                raise BadSetting(
                    f"{self.address} does not know version {version} of question {key}, only {least} to {most}: the "
                    f'workers read from brokers of Kafka 2.1 and later. Set kafka.reader = "spark".'
                )

    def _log_in(self, login: Login, host: str) -> None:
        answer = self.ask(SaslHandshakeRequest[1](mechanism=login.mechanism))
        if answer.error_code:
            raise BadSetting(
                f"{self.address} does not let clients log in by sasl.mechanism {login.mechanism}, but by "
                f"{', '.join(answer.mechanisms)}. Correct [kafka.client]."
            )
        # In SCRAM's messages a comma ends a name, and this is how a name has one.
        user = login.user if login.mechanism == "PLAIN" else login.user.replace("=", "=3D").replace(",", "=2C")
        words = {"sasl_plain_username": user, "sasl_plain_password": login.password}
        exchange = get_sasl_mechanism(login.mechanism)(host=host, sasl_mechanism=login.mechanism, **words)
        began = time.monotonic()
        while not exchange.is_done():
            answer = self.ask(SaslAuthenticateRequest[1](exchange.auth_bytes()))
            if answer.error_code:
                raise self._not_let_in(login, answer.error_message)
            try:
                exchange.receive(bytes(answer.auth_bytes))
            except (ValueError, KeyError, AssertionError) as error:
                raise self._not_let_in(login, str(error)) from error
        if not exchange.is_authenticated():
            raise self._not_let_in(login, "the exchange was not finished")
        if answer.session_lifetime_ms:
            self._good_until = began + _RENEWED_AT * answer.session_lifetime_ms / 1000

    def _not_let_in(self, login: Login, why: str | None) -> BadSetting:
        return BadSetting(
            f"{self.address} does not let {login.user!r} in by {login.mechanism}: {why}. Correct user "
            f"and password in sasl.jaas.config ([kafka.client] or [kafka.client_java])."
        )
