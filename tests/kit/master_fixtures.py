"""A master table on the real server, described by a contract made in the test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from pipeline.config.contracts import DimensionContract, KeyColumn
from pipeline.config.measures import Seconds, Secret
from pipeline.config.settings import MasterData
from pipeline.laptop.stack.stack import Stack
from pipeline.master.mysql import drivers
from pipeline.master.mysql.connection import Means
from pipeline.master.mysql.master import MySqlMaster
from pipeline.master.mysql.pool import Pool
from pipeline.master.mysql.session import Address
from pipeline.master.port import Master

COLUMNS = "sk BIGINT, changed TIMESTAMP(6) NOT NULL DEFAULT '2026-11-18 10:00:00.25'"


def dimension(
    key: Mapping[str, str], attributes: Mapping[str, pa.DataType] | None = None, table: str = "t"
) -> DimensionContract:
    """The contract of a table with these key columns, a surrogate key `sk` and an update time `changed`."""
    parts = tuple(KeyColumn(column, column, kind) for column, kind in key.items())
    return DimensionContract("thing", table, parts, "sk", "changed", dict(attributes or {}))


@dataclass
class Server:
    """A fresh database of the stack's server."""

    stack: Stack
    name: str
    opened: list[drivers.Driver] = field(default_factory=list)  # by masters made here, in order
    ids: list[int] = field(default_factory=list)  # the server's numbers of these sessions

    @property
    def settings(self) -> MasterData:
        account = self.stack.database.accounts.owner
        return MasterData(
            host="127.0.0.1",
            port=self.stack.database.port,
            user=account.user,
            password=Secret(account.password),
            database=self.name,
            retry_for=Seconds(60),
        )

    def execute(self, statement: str, values: Sequence[Sequence[Any]] | None = None) -> list[tuple[Any, ...]]:
        """Run a statement as the database's administrator, with another driver than the job's."""
        connection = self.stack.database.connect("admin", self.name, charset="utf8mb4")
        with connection, connection.cursor() as cursor:
            if values is None:
                cursor.execute(statement)
            else:
                cursor.executemany(statement, values)
            return list(cursor.fetchall())

    def table(self, key_ddl: str, rows: Sequence[Sequence[Any]], index: str = "PRIMARY KEY") -> None:
        """Create `t` with these key columns and rows of keys; surrogate keys count from 1."""
        names = [part.split()[0] for part in key_ddl.split(",") if part.split()[0].isidentifier()]
        self.execute(f"CREATE TABLE t ({key_ddl}, {COLUMNS}, {index} ({', '.join(names)})) ENGINE = InnoDB")
        places = ", ".join(["%s"] * (len(names) + 1))
        numbered = [(*row, number) for number, row in enumerate(rows, start=1)]
        if numbered:
            self.execute(f"INSERT INTO t ({', '.join(names)}, sk) VALUES ({places})", numbered)

    def master(self, contract: DimensionContract, **changes: Any) -> MySqlMaster:
        """A master over this database; `opened` collects the connections it opens."""

        def connect(address: Address) -> drivers.Driver:
            self.opened.append(drivers.connect(address))
            self.ids.append(int(self.sees(-1, "SELECT CONNECTION_ID()")[0][0]))
            return self.opened[-1]

        settings = replace(self.settings, **changes)
        return MySqlMaster(settings, contract, Pool(settings, Means(connect)))

    def sees(self, session: int, statement: str) -> list[drivers.Row]:
        """A statement in one of the sessions that masters have opened."""
        return drivers.ask(self.opened[session], statement)


def found(answer: pa.Table) -> dict[Any, int]:
    """Key to surrogate key; a key that comes twice is an error."""
    keys = answer["key"].to_pylist()
    assert len(set(keys)) == len(keys)
    return dict(zip(keys, answer["surrogate_key"].to_pylist(), strict=True))


def every_key(master: Master, rows: int) -> list[Any]:
    """As the master lists them, at most so many at a time."""
    listed: list[Any] = []
    while some := master.keys(listed[-1] if listed else None, rows).to_pylist():
        assert len(some) <= rows
        listed += some
    return listed
