"""A second database server that replicates from the first, by GTID and rows, and takes its place when that dies."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from pipeline.laptop.stack.database import Database
from pipeline.laptop.stack.ports import LOOPBACK
from tests.kit.mysql_server import asked_for

_CAUGHT_UP_WITHIN = 60  # seconds


class ReplicatedDatabase(Database):
    """A server that others may replicate from the first change on: its log is kept whole."""

    number = 1  # by which the servers of a replication tell each other apart

    def command(self) -> list[str]:
        named = [f"--server-id={self.number}", "--relay-log=relay", "--binlog-expire-logs-seconds=0"]
        if self.kind == "mysql":
            return [*super().command(), *named, "--gtid-mode=ON", "--enforce-gtid-consistency=ON"]
        return [*super().command(), *named, "--log-slave-updates=ON", "--gtid-strict-mode=ON"]

    def replica(self, folder: Path) -> ReplicatedDatabase:
        """Another server in this folder, which has all that this one has and follows it."""
        other = ReplicatedDatabase(folder, self.supervised, self._choose_program)
        other.number = self.number + 1
        other.replicate(self)
        return other

    def replicate(self, first: ReplicatedDatabase) -> None:
        """Start, get all that the first one has, and follow it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        shutil.copy2(first.folder / "accounts.json", self.folder)
        self.start()
        self._follow(first)
        self.catch_up(first)

    def catch_up(self, first: ReplicatedDatabase) -> None:
        """Wait until it has all that the first one has by now."""
        is_mysql = self.kind == "mysql"
        [(upto,)] = first.asked("SELECT @@GLOBAL.gtid_executed" if is_mysql else "SELECT @@GLOBAL.gtid_binlog_pos")
        wait = "WAIT_FOR_EXECUTED_GTID_SET" if is_mysql else "MASTER_GTID_WAIT"
        [(has_waited,)] = self.asked(f"SELECT {wait}('{upto}', {_CAUGHT_UP_WITHIN})")
        assert has_waited == 0, f"no replica of what came up to {upto}: {self.asked(f'SHOW {self._role} STATUS')}"

    def hear_nothing_more(self) -> None:
        """What the first one commits from now on stays its own: replication does not wait for a replica."""
        self.execute(f"STOP {self._role}")

    def promote(self) -> None:
        """It is the first one now, and written to."""
        self.execute(f"STOP {self._role}", f"RESET {self._role} ALL", "SET GLOBAL read_only = OFF")

    def asked(self, question: str) -> list[tuple[Any, ...]]:
        with self.connect("admin", None) as connection, connection.cursor() as cursor:
            cursor.execute(question)
            return list(cursor.fetchall())

    @property
    def _role(self) -> str:
        return "REPLICA" if self.kind == "mysql" else "SLAVE"

    def _follow(self, first: ReplicatedDatabase) -> None:
        admin = first.accounts.admin
        at = {"HOST": f"'{LOOPBACK}'", "PORT": first.port, "USER": f"'{admin.user}'", "PASSWORD": f"'{admin.password}'"}
        if self.kind == "mysql":
            forget, change, word = "RESET BINARY LOGS AND GTIDS", "CHANGE REPLICATION SOURCE TO", "SOURCE"
            at |= {"AUTO_POSITION": 1, "SSL": 1}
        else:
            forget, change, word = "RESET MASTER", "CHANGE MASTER TO", "MASTER"
            at |= {"USE_GTID": "slave_pos", "SSL": 0, "SSL_VERIFY_SERVER_CERT": 0}
        given = ", ".join(f"{word}_{name} = {value}" for name, value in at.items())
        # What it has done by itself, to make its accounts, is no part of the history that it is about to get.
        self.execute(forget, f"{change} {given}", f"START {self._role}", "SET GLOBAL read_only = ON")


def first_server(folder: Path, supervised: bool = True) -> ReplicatedDatabase:
    return ReplicatedDatabase(folder, supervised, asked_for)
