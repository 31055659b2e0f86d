"""Answers scrapes at /metrics (/metrics/minute-ago: as they were) and probes at /live and /ready.

Probes need no token: they tell nothing, and who asks them (Kubernetes) has none.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from pipeline.errors import BadSetting
from pipeline.watch.access import OPEN, Access

log = logging.getLogger("millrace.metrics")

SECONDS_AGO = "Millrace-Seconds-Ago"
_LISTEN = 0.05  # seconds between looks whether to end


class MetricsServer(ThreadingTCPServer):
    """An HTTP server in a thread of its own; `port` 0 lets the system choose."""

    # http.server's own class asks the name service who we are, which can take seconds.
    allow_reuse_address = True
    daemon_threads = True

    def __init__(
        self,
        host: str,
        port: int,
        registry: CollectorRegistry,
        is_ready: Callable[[], bool],
        minute_ago: Callable[[], tuple[Collector, float]],
        access: Access = OPEN,
        setting: str = "port",
    ) -> None:
        self.access = access
        secured = access.of_server()
        self.registry = registry
        self.is_ready = is_ready
        self.minute_ago = minute_ago
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            super().__init__((host, port), _Handler)
        except (OSError, OverflowError) as error:
            raise BadSetting(
                f"metrics cannot be served at {host}:{port}: {getattr(error, 'strerror', None) or error}. If another "
                f"job has the port, set metrics.{setting} to a free one, or to 0 for any; metrics.host must be an "
                f"address of this machine."
            ) from error
        self.port = int(self.server_address[1])
        if secured:  # each client is greeted in its own thread, so that a slow one keeps nobody waiting
            self.socket = secured.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=self.serve_forever, args=(_LISTEN,), name="metrics", daemon=True).start()

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that leaves, or does not speak TLS, is not news."""
        log.debug("%s was not served", client_address, exc_info=True)

    def close(self) -> None:
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: MetricsServer
    timeout = 30  # seconds; a client that says nothing does not keep its thread

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path.startswith("/metrics") and not self.server.access.is_granted(self.headers.get("Authorization")):
            wanted = {"WWW-Authenticate": "Bearer"}
            self._answer(401, "text/plain", b"metrics are for who shows the token of metrics.token_file\n", wanted)
        elif path == "/metrics":
            encode, content_type = choose_encoder(self.headers.get("Accept", ""))
            self._answer(200, content_type, encode(self.server.registry))
        elif path == "/metrics/minute-ago":
            then, seconds = self.server.minute_ago()
            encode, content_type = choose_encoder(self.headers.get("Accept", ""))
            self._answer(200, content_type, encode(_registry_of(then)), {SECONDS_AGO: f"{seconds:.3f}"})
        elif path == "/live":
            self._answer(200, "text/plain", b"alive\n")
        elif path == "/ready":
            ready = self.server.is_ready()
            sentence = b"ready\n" if ready else b"not ready: Kafka and the master have not both answered yet\n"
            self._answer(200 if ready else 503, "text/plain", sentence)
        else:
            self._answer(404, "text/plain", b"there is /metrics, /metrics/minute-ago, /live and /ready\n")

    def _answer(self, status: int, content_type: str, body: bytes, more: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (more or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Scrapes are not news."""


def _registry_of(collector: Collector) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(collector)
    return registry
