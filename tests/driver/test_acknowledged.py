"""What a worker asks of the system at the beginning of a task."""

from __future__ import annotations

import os
import socket

import pytest

from pipeline.driver import cluster


@pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="Linux alone can be asked to acknowledge at once")
def test_what_has_come_is_acknowledged_at_once_and_every_file_stays_as_it_was() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as spark,
        server.accept()[0] as worker,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM),  # none of TCP's
    ):
        worker.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
        before = sorted(os.listdir("/proc/self/fd"))
        cluster._acknowledge_the_command()
        assert worker.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK) == 1
        assert sorted(os.listdir("/proc/self/fd")) == before
        spark.sendall(b"the end")
        assert worker.recv(7) == b"the end"
