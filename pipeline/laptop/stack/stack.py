"""The embedded stack as one thing: up, down, status, and the settings that point a job at it.

    stack = Stack(Path(".millrace"))
    info = stack.up()                # starts what does not run; a second time changes nothing
    stack.down()

Servers started this way outlive the process that started them. With `supervised=True` they never do.
"""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from pipeline.config import toml
from pipeline.laptop.stack import database_programs
from pipeline.laptop.stack.database import MASTER, Account, Database
from pipeline.laptop.stack.database_programs import DatabaseProgram
from pipeline.laptop.stack.kafka import KafkaBroker
from pipeline.laptop.stack.ports import LOOPBACK
from pipeline.laptop.stack.process import PortTaken, Server

_ATTEMPTS = 3


@dataclass(frozen=True)
class StackInfo:
    """Where the servers are, and the accounts to use them with."""

    folder: Path
    bootstrap: str
    host: str
    port: int
    database: str
    owner: Account  # all rights in the master database: seeds it
    reader: Account  # reads the dimensions' tables: what the job uses
    settings_file: Path


class Stack:
    """A broker and a database server below one folder."""

    def __init__(
        self,
        folder: Path | str = ".millrace",
        supervised: bool = False,
        program: Callable[[], DatabaseProgram] = database_programs.choose,
    ) -> None:
        self.folder = Path(folder).absolute()
        self.kafka = KafkaBroker(self.folder, supervised)
        self.database = Database(self.folder, supervised, program)
        self.servers: tuple[Server, ...] = (self.kafka, self.database)

    def up(self) -> StackInfo:
        """Start what does not run yet, wait until it answers, and write the settings file."""
        with self._alone():
            with ThreadPoolExecutor(len(self.servers)) as threads:
                # All have ended, well or badly, before the first failure is raised.
                starts = [threads.submit(start_on_free_ports, server) for server in self.servers]
            for start in starts:
                start.result()
            info = self.info()
            _write_settings(info)
        return info

    def down(self) -> None:
        """Stop whatever runs of this stack, also what another process started. The data stays."""
        if not self.folder.exists():
            return
        with self._alone(), ThreadPoolExecutor(len(self.servers)) as threads:
            list(threads.map(lambda server: server.stop(), self.servers))

    def status(self) -> dict[str, int | None]:
        """The process number of each server; None for one that does not run."""
        return {server.name: server.pid for server in self.servers}

    def info(self) -> StackInfo:
        return StackInfo(
            folder=self.folder,
            bootstrap=self.kafka.bootstrap,
            host=LOOPBACK,
            port=self.database.port,
            database=MASTER,
            owner=self.database.accounts.owner,
            reader=self.database.accounts.reader,
            settings_file=self.folder / "stack.toml",
        )

    def __enter__(self) -> Stack:
        self.up()
        return self

    def __exit__(self, *_: object) -> None:
        self.down()

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """One `up` or `down` at a time in a folder; the lock dies with its holder."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def start_on_free_ports(server: Server) -> None:
    """Start a server on the ports it had before, or on others if another program has taken these."""
    for attempt in range(_ATTEMPTS):
        if not server.running and not server.ports_are_free():
            server.choose_ports()
        try:
            server.start()
            return
        except PortTaken:
            # Another program took the port between our look and the server's.
            if attempt == _ATTEMPTS - 1:
                raise
            server.choose_ports()


def _write_settings(info: StackInfo) -> None:
    """Paths in it are below its own folder."""
    servers = settings_of(info)
    tables: toml.Tables = {
        "job": {"checkpoint": "checkpoint"},
        "warehouse": {"path": "warehouse"},
        "kafka": servers["kafka"],
        "master": {**servers["master"], "costs": "costs.toml"},
    }
    remark = "Written by `millrace up`: where the embedded servers are now. Paths are below the folder of this file."
    toml.write_private(info.settings_file, remark, tables)


def settings_of(info: StackInfo) -> dict[str, dict[str, str | int]]:
    """What a settings file says of the servers."""
    return {
        "kafka": {"bootstrap": info.bootstrap},
        "master": {
            "host": info.host,
            "port": info.port,
            "user": info.reader.user,
            "password": info.reader.password,
            "database": info.database,
        },
    }
