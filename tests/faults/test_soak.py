"""A few faults of the soak, the page of all, and the line that its faults break."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.laptop.stack import ports
from pipeline.laptop.stack.ports import LOOPBACK
from tests.faults.soak import soak_page
from tests.faults.soak.kinds import KINDS, refused
from tests.faults.soak.soak_run import soak
from tests.kit import memory_cgroup
from tests.kit.fault_proxy import FaultProxy


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_after_a_few_faults_of_the_soak_the_checker_finds_nothing_wrong(tmp_path: Path) -> None:
    kinds = ["driver killed", "line to Kafka: reset", "database frozen"]
    records = soak(tmp_path, seed=1, faults=3, kinds=kinds)
    assert sorted(record["kind"] for record in records if "fault" in record) == sorted(kinds)
    assert records[-1]["ok"], records[-1]["wrong"]
    assert records[-1]["messages"] >= records[-1]["acknowledged"] > 0


def test_a_kind_that_the_machine_cannot_do_is_named_with_what_it_lacks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(memory_cgroup, "_ROOT", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    not_here = refused()
    assert "memory cgroups of version 1" in not_here["worker out of memory"]
    assert "C compiler" in not_here["clock an hour ahead"]
    assert not_here.keys() < KINDS.keys()


def test_the_page_says_what_the_records_say() -> None:
    assert soak_page.PAGE.read_text() == soak_page.written()


def test_a_fault_without_a_check_behind_it_is_not_counted_and_what_is_wrong_is_said() -> None:
    fault = {"fault": 1, "kind": "broker killed", "algorithm": "auto", "algorithm_after": "inlj"}
    fault |= {"lasted": 1.0, "recovery": 61.0, "ended": [2], "at": "2026-11-19T23:00:00.000", "seed": 7}
    check = {"check": True, "ok": True, "wrong": [], "messages": 1_000}
    told = soak_page.told({"soak-7.jsonl": [fault, check, fault]})
    assert "**1 faults** of the 300" in told
    assert "Recoveries of more than 60 s: 1." in told
    assert "before their run was ended: 1." in told
    assert "| broker killed | 1 | 61.0 | 61.0 | 1, exit code 2 |" in told
    bad = check | {"ok": False, "wrong": ["messages lost: 3"]}
    assert "Lost, doubled or wrong: **1** (messages lost: 3)" in soak_page.told({"soak-7.jsonl": [fault, check, bad]})


RESET_ME = b"reset me"


class Echo(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        with contextlib.suppress(ConnectionError):
            while data := self.request.recv(1024):
                if data == RESET_ME:
                    self.request.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    self.request.close()
                    return
                self.request.sendall(data)


@pytest.fixture
def line() -> Iterator[FaultProxy]:
    with socketserver.ThreadingTCPServer((LOOPBACK, 0), Echo) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        [port] = ports.choose(1)
        with FaultProxy(port, server.server_address[1]) as line:
            yield line
        server.shutdown()


def connected(line: FaultProxy) -> socket.socket:
    return socket.create_connection((LOOPBACK, line.port), timeout=5)


def echoed(client: socket.socket) -> bytes:
    client.sendall(b"sale")
    return client.recv(4)


def test_a_line_passes_on_what_comes_and_is_torn_cut_and_silent_when_told_to(line: FaultProxy) -> None:
    with connected(line) as client:
        assert echoed(client) == b"sale"
        with line.slow(delay=0.01, rate=1_000):
            assert echoed(client) == b"sale"
        line.tear()
        with pytest.raises(ConnectionResetError):
            client.recv(4)
    with connected(line) as before, line.cut():
        with pytest.raises(ConnectionResetError):
            before.recv(4)
        with connected(line) as meanwhile, pytest.raises(ConnectionResetError):
            meanwhile.recv(4)
    with connected(line) as client:
        with line.silent():
            client.settimeout(0.2)
            with pytest.raises(TimeoutError):
                echoed(client)
        with pytest.raises(TimeoutError):
            echoed(client)  # what is lost cannot be told again
        with connected(line) as another:
            assert echoed(another) == b"sale"


def test_a_server_that_dies_behind_a_line_is_no_half_open_one(line: FaultProxy) -> None:
    with connected(line) as client:
        client.sendall(RESET_ME)
        with pytest.raises(ConnectionResetError):
            client.recv(4)
