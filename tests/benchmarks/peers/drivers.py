"""The JDBC driver of each kind of database, for the peers that run in a JVM."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pipeline.java import jars
from tests.benchmarks.peers.task import Task

LOCK = Path(__file__).with_name("jars.lock")
_CLASSES = {"mysql": "com.mysql.cj.jdbc.Driver", "mariadb": "org.mariadb.jdbc.Driver"}
# Without TLS, as all other peers. Flink and Spark tell the dialect by `jdbc:mysql:`, which MariaDB's driver takes, too.
_OPTIONS = {"mysql": "sslMode=DISABLED&allowPublicKeyRetrieval=true", "mariadb": "permitMysqlScheme&sslMode=disable"}


@dataclass(frozen=True)
class Driver:
    jars: list[Path]
    name: str  # of its class
    url: str


def driver(task: Task) -> Driver:
    url = f"jdbc:mysql://{task.host}:{task.port}/{task.database}?{_OPTIONS[task.kind]}"
    return Driver(jars.fetch(task.kind, LOCK), _CLASSES[task.kind], url)
