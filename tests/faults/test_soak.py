"""A few faults of the soak, the page of all, and the line that its faults break."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline.laptop.stack import ports
from pipeline.laptop.stack.ports import LOOPBACK
from tests.faults.soak import jvm_counters, soak_page
from tests.faults.soak.kinds import KINDS, refused
from tests.faults.soak.leaders import SceneOfThree
from tests.faults.soak.soak_run import soak
from tests.faults.soak.watch import KINDS as KINDS_OF_PROCESSES
from tests.kit import memory_cgroup
from tests.kit.fault_proxy import FaultProxy


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_after_a_few_faults_of_the_soak_the_checker_finds_nothing_wrong(tmp_path: Path) -> None:
    kinds = ["driver killed", "line to Kafka: reset", "database frozen"]
    records = soak(tmp_path, seed=1, faults=3, kinds=kinds, watched=True)
    assert sorted(record["kind"] for record in records if "fault" in record) == sorted(kinds)
    assert records[-1]["ok"], records[-1]["wrong"]
    assert records[-1]["messages"] >= records[-1]["acknowledged"] > 0
    [first, *_] = [record for record in records if "watch" in record]
    assert first["processes"].keys() >= {"driver", "JVM", "parent of workers", "oldest worker"}
    assert min(held["threads"] for held in first["processes"].values()) >= 1
    assert first["heap"]["old generation"] > 0
    assert first["tables"]["fact_sales"]["files of the table"] > 0
    assert "spark" in first["temporary"]["names"]


def test_a_kind_that_the_machine_cannot_do_is_named_with_what_it_lacks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(memory_cgroup, "_ROOT", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    not_here = refused()
    assert "memory cgroups of version 1" in not_here["worker out of memory"]
    assert "C compiler" in not_here["clock an hour ahead"]
    assert not_here.keys() < KINDS.keys()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_sales_go_on_and_are_all_there_when_one_of_three_brokers_goes_that_led_them(tmp_path: Path) -> None:
    records = soak(tmp_path, seed=1, faults=1, kinds=["leader restarted"], stage=SceneOfThree)
    assert [record.get("kind") for record in records] == ["leader restarted", None]
    assert records[-1]["ok"], records[-1]["wrong"]
    assert records[-1]["messages"] >= records[-1]["acknowledged"] > 0


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


def looked_at(minute: int, held: float) -> dict[str, Any]:
    process = {"processes": 1, "megabytes": 500, "open files": held, "threads": 50, "oldest": 60 * minute}
    table = {"files of the table": 9, "files on the disk": 100, "files of the log": 100}
    return {
        "watch": True, "second": 60.0 * minute, "driver": 1, "lived": 60 * minute, "maintained": [0], "sessions": 4,
        "processes": dict.fromkeys(KINDS_OF_PROCESSES, process),
        "heap": {"old generation": 100 + 10 * (minute % 7), "metaspace": 30},
        "checkpoint": 200, "tables": {"facts": table}, "temporary": {"files": 3, "folders": 2, "bytes": 5_000},
        "at": "2026-11-20T12:46:00.000", "seed": 31,
    }  # fmt: skip


def test_what_grows_while_a_job_is_watched_is_called_not_flat() -> None:
    steady = soak_page.told({"soak-31.jsonl": [looked_at(minute, 300.0) for minute in range(115)]})
    assert "Not flat: **nothing**." in steady
    assert "| JVM: open files | 300 | 300 | 300 | 300 | 300 | yes |" in steady
    assert "| JVM: heap in use, megabytes | 100 | 100 | 100 | 100 | 160 | yes |" in steady
    assert "The oldest driver was 114 minutes old, the oldest worker 114." in steady
    begun_anew = [looked_at(m, 300.0 + m) for m in range(85)] + [
        looked_at(m, 300.0) | {"driver": 2} for m in range(85, 115)
    ]
    assert "| JVM: open files | 310 | 331 | 352 | 374 | 384 | **no** |" in soak_page.told({"soak-31.jsonl": begun_anew})
    leaking = soak_page.told({"soak-31.jsonl": [looked_at(minute, 300.0 + minute) for minute in range(115)]})
    assert "| JVM: open files | 314 | 342 | 371 | 400 | 414 | **no** |" in leaking
    warm = soak_page.told(
        {"soak-31.jsonl": [looked_at(minute, 300.0 if minute < 20 else 400.0) for minute in range(115)]}
    )
    assert "Not flat: **nothing**." in warm


def test_a_jvm_tells_its_numbers_without_being_asked() -> None:
    name, words = b"java.threads.live\0\0\0", b"java.property\0\0\0"
    number = struct.pack("<iiiBBBBi", 48, 20, 0, ord("J"), 0, 1, 1, 40) + name + struct.pack("<q", 291)
    text = struct.pack("<iiiBBBBi", 40, 20, 4, ord("B"), 0, 5, 1, 36) + words + b"Java"
    begin = struct.pack(">I", 0xCAFEC0C0) + bytes([1, 2, 0, 1]) + struct.pack("<iiqii", 0, 0, 0, 32, 2)
    assert jvm_counters.numbers(begin + text + number) == {"java.threads.live": 291}
    assert jvm_counters.counters(0) == {}


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
        with pytest.raises(ConnectionResetError), connected(line) as meanwhile:  # or before it is connected
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
