"""The faults: each is a function that breaks something, lasts, and has mended it when it returns."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable

import pymysql

from pipeline.laptop.stack.ports import LOOPBACK
from pipeline.laptop.stack.process import Server
from tests.faults.clock import jumping
from tests.faults.soak import kinds_of_clocks, kinds_of_failover, kinds_of_memory
from tests.faults.soak.scene import Scene
from tests.kit import memory_cgroup
from tests.kit.fault_proxy import FaultProxy
from tests.kit.running import age, wait_until

FEWEST_CONNECTIONS = 10  # MariaDB takes no smaller limit
LONG = 3, 20  # seconds: some of them longer than what a client waits for one answer


def driver_killed(scene: Scene) -> None:
    scene.job.kill()
    scene.start()


def driver_killed_at_its_start(scene: Scene) -> None:
    """Somewhere between the first second and the first batches."""
    scene.job.kill()
    scene.start()
    scene.wait(0.3, 9)
    scene.job.kill()
    scene.start()


def another_algorithm(scene: Scene) -> None:
    """As on an upgrade: told to end, and started with other settings."""
    assert scene.job.stop() == 0, scene.job.tail()
    scene.start()


def worker_killed(scene: Scene) -> None:
    wait_until(lambda: bool(scene.job.workers()) or not scene.job.running, "a Python worker")
    if workers := sorted(scene.job.workers(), key=age):
        with contextlib.suppress(ProcessLookupError):
            os.kill(workers[0], signal.SIGKILL)  # the youngest: the oldest is watched


def database_full_of_connections(scene: Scene) -> None:
    """Others hold all connections that the server gives, and the job's own are ended."""
    database = scene.stack.database
    reader = database.accounts.reader
    with contextlib.ExitStack() as held, database.connect("admin") as admin, admin.cursor() as cursor:
        cursor.execute("SELECT @@GLOBAL.max_connections")
        [(limit,)] = cursor.fetchall()
        cursor.execute(f"SET GLOBAL max_connections = {FEWEST_CONNECTIONS}")
        try:
            cursor.execute("SELECT id FROM information_schema.processlist WHERE user = %s", (reader.user,))
            theirs = [number for (number,) in cursor.fetchall()]
            for number in theirs:
                with contextlib.suppress(pymysql.MySQLError):  # it has ended meanwhile
                    cursor.execute(f"KILL {number}")
            with contextlib.suppress(pymysql.MySQLError):  # until the server gives no more
                for _ in range(FEWEST_CONNECTIONS + 1):
                    given = {"user": reader.user, "password": reader.password}
                    held.callback(pymysql.connect(host=LOOPBACK, port=database.port, **given).close)
            scene.wait(2, 8)
        finally:
            cursor.execute(f"SET GLOBAL max_connections = {limit}")


def _slow(line: FaultProxy, scene: Scene) -> None:
    with line.slow(delay=scene.moments.uniform(0.05, 0.4)):
        scene.wait(4, 10)


def _slow_bytes(line: FaultProxy, scene: Scene) -> None:
    with line.slow(rate=20_000):
        scene.wait(4, 10)


def _silent(line: FaultProxy, scene: Scene) -> None:
    with line.silent():
        scene.wait(*LONG)


def _cut(line: FaultProxy, scene: Scene) -> None:
    with line.cut():
        scene.wait(*LONG)


def _torn(line: FaultProxy, scene: Scene) -> None:
    for _ in range(scene.moments.randint(1, 4)):
        line.tear()
        scene.wait(0, 0.5)


def _killed(server: Server, scene: Scene) -> None:
    server.kill()
    scene.wait(0, 3)
    server.start()


def _restarted(server: Server, scene: Scene) -> None:
    server.stop()
    server.start()


def _frozen(server: Server, scene: Scene, lasting: tuple[float, float] = LONG) -> None:
    pid = server.pid
    assert pid, f"{server.name} runs"
    os.kill(pid, signal.SIGSTOP)
    try:
        scene.wait(*lasting)
    finally:
        os.kill(pid, signal.SIGCONT)


def _frozen_for_a_minute(server: Server, scene: Scene) -> None:
    _frozen(server, scene, (61, 63))


_OF_SERVERS: dict[str, Callable[[Server, Scene], None]] = {
    "killed": _killed,
    "restarted": _restarted,
    "frozen": _frozen,
    "frozen for a minute": _frozen_for_a_minute,
}
_OF_LINES = {"latency": _slow, "slow bytes": _slow_bytes, "half open": _silent, "cut": _cut, "reset": _torn}

KINDS: dict[str, Callable[[Scene], None]] = {
    "driver killed": driver_killed,
    "driver killed at its start": driver_killed_at_its_start,
    "another algorithm": another_algorithm,
    "worker killed": worker_killed,
    "worker out of memory": kinds_of_memory.worker_out_of_memory,
    "clock an hour ahead": kinds_of_clocks.ahead,
    "clock an hour behind": kinds_of_clocks.behind,
    **{f"broker {how}": lambda scene, f=f: f(scene.stack.kafka, scene) for how, f in _OF_SERVERS.items()},
    **{f"database {how}": lambda scene, f=f: f(scene.stack.database, scene) for how, f in _OF_SERVERS.items()},
    "database full of connections": database_full_of_connections,
    "database fails over": kinds_of_failover.fails_over,
    **{f"line to Kafka: {how}": lambda scene, f=f: f(scene.to_kafka, scene) for how, f in _OF_LINES.items()},
    **{f"line to the database: {how}": lambda scene, f=f: f(scene.to_database, scene) for how, f in _OF_LINES.items()},
}
END_THE_DRIVER = ("driver killed", "driver killed at its start", "another algorithm")


def refused() -> dict[str, str]:
    """The kinds that this machine cannot do, and why."""
    no_clock = "" if jumping.is_possible() else jumping.NEEDED
    why = {"worker out of memory": memory_cgroup.refusal()} | dict.fromkeys(
        ("clock an hour ahead", "clock an hour behind"), no_clock
    )
    return {kind: reason for kind, reason in why.items() if reason}
