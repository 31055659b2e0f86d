"""A real database server on loopback: MySQL or MariaDB, its accounts made, its data below one folder."""

from __future__ import annotations

import json
import secrets
import ssl
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from functools import cached_property, lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import pymysql
from pymysql.constants import CLIENT

from pipeline.errors import MillraceError
from pipeline.java import downloads
from pipeline.laptop.stack import database_programs
from pipeline.laptop.stack.database_programs import DatabaseProgram
from pipeline.laptop.stack.ports import LOOPBACK
from pipeline.laptop.stack.process import Server, ServerFailed

MASTER = "master"
DIMENSION_TABLES = ("product", "customer", "store")


class ScriptFailed(MillraceError):
    """The database refused a statement of the user's own."""


@dataclass(frozen=True)
class Account:
    user: str
    password: str = field(repr=False)


@dataclass(frozen=True)
class Accounts:
    """Three accounts: one may do everything; one everything in the master database; one may read the named tables, and
    follow the server's binary log."""

    admin: Account = field(default_factory=lambda: Account("root", secrets.token_urlsafe(12)))
    owner: Account = field(default_factory=lambda: Account("millrace", secrets.token_urlsafe(12)))
    reader: Account = field(default_factory=lambda: Account("millrace_reader", secrets.token_urlsafe(12)))


class Database(Server):
    """The server, and the few things one asks of its administration."""

    name: ClassVar[str] = "database"
    logs_changes: ClassVar[bool] = True  # for `master.feed`
    host = LOOPBACK

    def __init__(
        self, folder: Path, supervised: bool = False, program: Callable[[], DatabaseProgram] = database_programs.choose
    ) -> None:
        super().__init__(folder, supervised)
        self._choose_program = program

    @cached_property
    def accounts(self) -> Accounts:
        """Made up once for a data folder."""
        file = self.folder / "accounts.json"
        if file.exists():
            return Accounts(**{role: Account(**account) for role, account in json.loads(file.read_text()).items()})
        accounts = Accounts()
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch(mode=0o600)
        file.write_text(json.dumps(asdict(accounts)))
        return accounts

    def prepare(self) -> None:
        accounts_file = self.folder / "accounts.sql"
        accounts_file.touch(mode=0o600)
        accounts_file.write_text(_sql_of(self.accounts))
        if self.data.exists():
            self._refuse_data_of_another_kind()
            return
        home = self._program.home or Path("/")
        with (
            self.unfinished_data() as unfinished,
            downloads.plainly_named(unfinished.parent) as plain,
            downloads.plainly_named(home) as plain_home,
        ):
            words = self._program.initialise
            if self._program.home:
                words = tuple(word.replace(str(home), str(plain_home)) for word in words)
            command = [*words, f"--datadir={plain / unfinished.name}", *database_programs.as_root()]
            # A server that starts clears away the temporary tables it finds, those of another one that is at work, too.
            with tempfile.TemporaryDirectory(prefix="millrace-") as temporary:
                self.run("initialise its data", command, database_programs.REMEDY, TMPDIR=temporary)
            self._kind_file.write_text(self.kind)

    def _refuse_data_of_another_kind(self) -> None:
        made_by = self._kind_file.read_text()
        if made_by != self.kind:
            raise ServerFailed(
                f"database: {self.data} was made by {made_by}, and this is {self.kind}. Set {database_programs.CHOICE}="
                f"{made_by} to use it, or delete {self.folder} to start anew."
            )

    def command(self) -> list[str]:
        return [
            *self._program.server,
            *database_programs.as_root(),
            f"--datadir={self.data}",
            f"--bind-address={self.host}",
            f"--port={self.port}",
            "--socket=server.sock",  # relative to the data folder: an absolute path may be too long for a socket
            f"--pid-file={self.data / 'server.pid'}",
            f"--init-file={self.folder / 'accounts.sql'}",
            "--skip-name-resolve",
            *self._log,
            "--local-infile=ON",
            "--character-set-server=utf8mb4",
            "--sql-mode=TRADITIONAL",
            "--max-connections=200",
            "--max-allowed-packet=64M",
            "--innodb-buffer-pool-size=256M",
            "--innodb-flush-log-at-trx-commit=2",
        ]

    @property
    def _log(self) -> list[str]:
        if not self.logs_changes:
            return ["--skip-log-bin"]
        return [
            "--log-bin=changes",
            "--server-id=1",
            "--loose-binlog-format=ROW",  # MySQL's only one, and not MariaDB's default
            "--sync-binlog=0",
            "--max-binlog-size=64M",
            "--binlog-expire-logs-seconds=3600",
        ]

    def answers(self) -> bool:
        try:
            with self.connect() as connection, connection.cursor() as cursor:
                cursor.execute("SELECT 1")
                return bool(cursor.fetchone() == (1,))
        except pymysql.MySQLError:
            return False

    def start(self) -> None:
        super().start()
        self.allow_reading(DIMENSION_TABLES)

    def connect(self, role: str = "owner", database: str | None = MASTER, **options: Any) -> Any:
        """A connection of pymysql as `admin`, `owner` or `reader`; a context manager that closes it."""
        account: Account = getattr(self.accounts, role)
        return pymysql.connect(
            host=self.host,
            port=self.port,
            user=account.user,
            password=account.password,
            database=database,
            autocommit=True,
            connect_timeout=5,
            local_infile=True,
            **self._transport,
            **options,
        )

    def execute(self, *statements: str, role: str = "admin", database: str | None = None) -> None:
        with self.connect(role, database) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def run_script(self, script: str) -> list[str]:
        """Run statements as the owner of the master data; returns the tables that are there then."""
        try:
            several = self.connect(client_flag=CLIENT.MULTI_STATEMENTS, charset="utf8mb4")
            with several as connection, connection.cursor() as cursor:
                cursor.execute(script)
                while cursor.nextset():
                    pass
                cursor.execute("SHOW TABLES")
                return sorted(str(name) for (name,) in cursor.fetchall())
        except pymysql.MySQLError as error:
            raise ScriptFailed(
                f"the database refused a statement: {error.args[-1]}. Those before it were run; correct it and run the "
                "rest, or drop the tables first."
            ) from error

    def create_database(self, name: str) -> None:
        """A fresh database beside `master`, with the same rights on the shipped dimensions' tables."""
        owner = self.accounts.owner.user
        self.execute(
            f"CREATE DATABASE `{name}` CHARACTER SET utf8mb4",
            f"GRANT ALL PRIVILEGES ON `{name}`.* TO '{owner}'@'{LOOPBACK}' WITH GRANT OPTION",
        )
        self.allow_reading(DIMENSION_TABLES, name)

    def drop_database(self, name: str) -> None:
        self.execute(f"DROP DATABASE IF EXISTS `{name}`")

    def allow_reading(self, tables: Iterable[str], database: str = MASTER) -> None:
        """Let the reading account read these tables, which need not be there yet, and nothing else."""
        reader = f"'{self.accounts.reader.user}'@'{LOOPBACK}'"
        # On a table that is not there yet a server grants SELECT only together with CREATE, which is revoked at once.
        grants = [
            (f"GRANT SELECT, CREATE ON {on} TO {reader}", f"REVOKE CREATE ON {on} FROM {reader}")
            for on in (f"`{database}`.`{table}`" for table in tables)
        ]
        self.execute(*chain.from_iterable(grants))

    @property
    def kind(self) -> str:
        """mysql or mariadb."""
        return self._program.kind

    @cached_property
    def _program(self) -> DatabaseProgram:
        return self._choose_program()

    @property
    def _transport(self) -> dict[str, Any]:
        # MySQL 8 and later take a password for the first time only through TLS, for which it makes its own certificate.
        return {"ssl": _unverified_tls()} if self.kind == "mysql" else {"ssl_disabled": True}

    @property
    def _kind_file(self) -> Path:
        return self.folder / "kind"


@lru_cache
def _unverified_tls() -> ssl.SSLContext:
    """Made here and once: pymysql's own would read all authorities of the machine for each connection."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _sql_of(accounts: Accounts) -> str:
    """What the server runs at every start, one statement a line; it changes nothing the second time."""
    lines = [
        f"ALTER USER 'root'@'localhost' IDENTIFIED BY '{accounts.admin.password}';",
        f"CREATE DATABASE IF NOT EXISTS `{MASTER}` CHARACTER SET utf8mb4;",
    ]
    for account in (accounts.admin, accounts.owner, accounts.reader):
        name = f"'{account.user}'@'{LOOPBACK}'"
        lines.append(f"CREATE USER IF NOT EXISTS {name} IDENTIFIED BY '{account.password}';")
        lines.append(f"ALTER USER {name} IDENTIFIED BY '{account.password}';")
    lines.append(f"GRANT ALL PRIVILEGES ON *.* TO '{accounts.admin.user}'@'{LOOPBACK}' WITH GRANT OPTION;")
    reader = f"'{accounts.reader.user}'@'{LOOPBACK}'"
    lines.append(f"GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO {reader};")
    lines.append(f"GRANT ALL PRIVILEGES ON `{MASTER}`.* TO '{accounts.owner.user}'@'{LOOPBACK}' WITH GRANT OPTION;")
    return "\n".join(lines) + "\n"
