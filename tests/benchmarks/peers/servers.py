"""The servers of a run: one broker, one database with the master tables, two topics of sales."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.generate.keys import Sizes
from pipeline.generate.run import generate
from pipeline.generate.seed import seed
from pipeline.generate.workload import Workload
from pipeline.laptop.stack.database import DIMENSION_TABLES
from pipeline.laptop.stack.stack import Stack
from tests.benchmarks.peers import misses
from tests.benchmarks.peers.accounting import BROKER, DATABASE
from tests.kit.mysql_server import asked_for

TIMED, CHECKED = "sales", "checked"  # topics
CHECKED_SALES = 20_000
PARTITIONS = 4
_POOL = 1 << 30  # bytes: all tables lie in the page pool, for no peer is to wait for a disk
_BEYOND = 1.05  # sales to be checked also want rows beyond the end of the tables, and have null keys
# Handler_read_key grows by one for each key that is looked for in an index, Questions for each statement of a client.
# Rows read are InnoDB's to MySQL, and the server's to MariaDB.
_COUNTERS = {"Handler_read_key": "keys", "Questions": "queries", "Innodb_rows_read": "rows", "Rows_read": "rows"}


@dataclass
class Servers:
    stack: Stack
    sizes: Sizes
    missing: float
    _status: Any  # a connection
    _polls: int = 0

    @property
    def pids(self) -> dict[str, int]:
        return {BROKER: self.stack.kafka.pid or 0, DATABASE: self.stack.database.pid or 0}

    def asked(self) -> Mapping[str, int]:
        """The database's counters without our own questions."""
        with self._status.cursor() as cursor:
            cursor.execute(f"SHOW GLOBAL STATUS WHERE Variable_name IN {tuple(_COUNTERS)}")
            self._polls += 1
            found = {_COUNTERS[name]: int(value) for name, value in cursor.fetchall()}
        return {**found, "queries": found["queries"] - self._polls}

    def version(self) -> str:
        with self._status.cursor() as cursor:
            cursor.execute("SELECT VERSION()")
            self._polls += 1
            return f"{self.stack.database.kind} {cursor.fetchone()[0]}"


@contextlib.contextmanager
def running(folder: Path, sizes: Sizes, skew: float, missing: float, sales: int) -> Iterator[Servers]:
    """The database by MILLRACE_DATABASE, as in the tests. `missing`: the share of products that are not there."""
    with Stack(folder / "stack", supervised=True, program=asked_for) as stack:
        database = stack.database
        database.execute(f"SET GLOBAL innodb_buffer_pool_size = {_POOL}")
        with database.connect("owner") as connection:
            seed(connection, sizes)
            misses.make(connection.cursor(), sizes.products, missing)
        warm(stack)
        beyond = Sizes(*(round(size * _BEYOND) for size in sizes.by_dimension))
        checked = Workload(topics={CHECKED: 1.0}, sizes=beyond, skew=skew, scatter=True, null_keys=0.01, seed=2)
        timed = Workload(topics={TIMED: 1.0}, sizes=sizes, skew=skew, scatter=True)
        for workload, messages in ((checked, CHECKED_SALES), (timed, sales)):
            generate(bootstrap=stack.info().bootstrap, workload=workload, messages=messages, partitions=PARTITIONS)
        with database.connect("admin") as status:
            yield Servers(stack, sizes, missing, status)


def warm(stack: Stack) -> None:
    """All tables into the page pool; and MySQL, once it has seen a password through TLS, takes it without."""
    with stack.database.connect("reader") as connection, connection.cursor() as cursor:
        for table in DIMENSION_TABLES:
            cursor.execute(f"SELECT COUNT(name) FROM {table}")
