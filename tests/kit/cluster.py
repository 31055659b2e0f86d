"""A real Spark standalone cluster on loopback: a master and workers, from the classes PySpark ships."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import urllib.request
from pathlib import Path
from typing import Any, ClassVar

import pyspark

from pipeline.java.runtime import java_home
from pipeline.laptop.stack.ports import LOOPBACK
from pipeline.laptop.stack.process import Server
from tests.kit.running import command_line, descendants

SPARK_HOME = Path(pyspark.__file__).parent
EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


class _Daemon(Server):
    """What a master and a worker have in common: a JVM with a small heap, and a page that tells their state as JSON."""

    port_names: ClassVar[tuple[str, ...]] = ("port", "page")

    def prepare(self) -> None:
        """Nothing is kept from start to start."""

    def environment(self) -> dict[str, str]:
        # A node of a cluster has Spark and Python, and none of the test's own packages.
        plain = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
        own = {
            "JAVA_HOME": str(java_home()),
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_IP": LOOPBACK,
            "SPARK_DAEMON_MEMORY": "192m",
            "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        }
        return {**plain, **own}

    def state(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"http://{LOOPBACK}:{self.ports['page']}/json/", timeout=10) as answer:
            return dict(json.load(answer))

    def _daemon(self, main: str, *arguments: object) -> list[str]:
        where = ["--host", LOOPBACK, "--port", self.port, "--webui-port", self.ports["page"]]
        return [str(word) for word in [SPARK_HOME / "bin" / "spark-class", main, *where, *arguments]]


class Master(_Daemon):
    name: ClassVar[str] = "master"

    @property
    def url(self) -> str:
        return f"spark://{LOOPBACK}:{self.port}"

    def command(self) -> list[str]:
        return self._daemon("org.apache.spark.deploy.master.Master")

    def answers(self) -> bool:
        with contextlib.suppress(OSError):
            return bool(self.state()["status"] == "ALIVE")
        return False


class Worker(_Daemon):
    """A node: starts executors for the master, and new ones when they die."""

    name: ClassVar[str] = "worker"

    def __init__(self, folder: Path, master: Master, cores: int, memory_mb: int) -> None:
        super().__init__(folder, supervised=True)
        self._master, self._cores, self._memory = master, cores, memory_mb

    def command(self) -> list[str]:
        limits = ["--cores", self._cores, "--memory", f"{self._memory}m", "--work-dir", self.folder / "work"]
        return self._daemon("org.apache.spark.deploy.worker.Worker", *limits, self._master.url)

    def answers(self) -> bool:
        with contextlib.suppress(OSError):
            known = [(w["port"], w["state"]) for w in self._master.state()["workers"]]
            return (self.port, "ALIVE") in known
        return False

    def executors(self) -> list[int]:
        """The process numbers of this node's executors."""
        return [pid for pid in descendants(self.pid or 0) if EXECUTOR in command_line(pid)] if self.running else []


class Cluster:
    """A master and some workers, gone when the block ends."""

    def __init__(self, folder: Path, workers: int = 2, cores: int = 1, memory_mb: int = 640) -> None:
        self.master = Master(folder, supervised=True)
        self.workers = [Worker(folder / f"node-{n}", self.master, cores, memory_mb) for n in range(1, workers + 1)]

    def executors(self) -> list[int]:
        return [pid for worker in self.workers for pid in worker.executors()]

    def __enter__(self) -> Cluster:
        with contextlib.ExitStack() as started:
            for server in (self.master, *self.workers):
                server.start()
                started.callback(server.stop)
            self._running = started.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()


def bare_python() -> str:
    """The interpreter below the private environment: it has none of our packages."""
    return f"{sys.base_prefix}/bin/python3"
