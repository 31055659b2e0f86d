"""A database server to measure on: its page pool is much smaller than R, so its disk decides, as the papers' did."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.config.contracts import DimensionContract, KeyColumn
from pipeline.config.measures import Secret
from pipeline.config.settings import MasterData
from pipeline.generate.seed import connect
from pipeline.laptop.stack.database import MASTER, Database
from pipeline.laptop.stack.stack import start_on_free_ports
from pipeline.master.computed import ComputedRows
from pipeline.master.open import open_master
from pipeline.master.port import MasterTable

POOL = 24_000_000  # bytes: a tenth of two million rows of 120 bytes
_LOADING = 1 << 30  # bytes of the pool while tables are filled
_CHUNK = 1 << 20  # a server's pool is a number of these
_ROWS_A_STATEMENT = 5_000  # half a megabyte: far below any server's max_allowed_packet
_ROWS_A_COMMIT = 100_000
_OFFSET = 4  # bytes that Arrow keeps beside a value of an attribute
_FIXED = 3 * 8  # key, surrogate key, update time
_ATTRIBUTES = 3
_SAMPLE = 1_000  # keys by which a table is told from others
_FIRST_MOMENT = np.datetime64("2020-01-01T00:00:00", "s")


class BenchDatabase(Database):
    """The embedded server with options of its own."""

    logs_changes: ClassVar[bool] = False
    options: tuple[str, ...] = ()

    def command(self) -> list[str]:
        return [*super().command(), *self.options]


def small_pool(nbytes: int) -> tuple[str, ...]:
    """Options for a page pool of so many bytes, past which the file system's cache does not help either."""
    return (
        f"--innodb-buffer-pool-size={nbytes // _CHUNK * _CHUNK}",
        f"--innodb-buffer-pool-chunk-size={_CHUNK}",
        "--innodb-buffer-pool-instances=1",
        "--innodb-flush-method=O_DIRECT",
        "--innodb-buffer-pool-load-at-startup=OFF",
        "--innodb-buffer-pool-dump-at-shutdown=OFF",
    )


class BenchServer:
    """
    Idea
        Tables with the rows of a ComputedRows, made when they are asked for, and kept until the server is closed.
        A server of our own starts in a folder that goes with it; another one is taken as it is, with its own pool, and
        its tables are left there, to be found again.

    Departures from ComputedRows
        A row is as wide in Arrow as asked for, but an attribute's four bytes of offset are among them; `updated_at`
        counts from 2020, for a server knows no moment of 1970.
    """

    def __init__(self, given: MasterData | None = None, pool: int = POOL) -> None:
        self._given = given
        self._own: BenchDatabase | None = None
        self._pool = pool
        self._tables: set[str] = set()
        if given is None:
            self._folder = tempfile.TemporaryDirectory(prefix="millrace-bench-")
            self._own = BenchDatabase(Path(self._folder.name), supervised=True)
            self._restart(small_pool(pool))

    @property
    def settings(self) -> MasterData:
        if self._own is None:
            assert self._given is not None
            return self._given
        owner = self._own.accounts.owner
        return MasterData(
            host="127.0.0.1", port=self._own.port, user=owner.user, password=Secret(owner.password), database=MASTER
        )

    @contextmanager
    def master(self, rows: ComputedRows, indexed: bool = True, **settings: Any) -> Iterator[MasterTable]:
        """These rows behind the port of the joins."""
        name = self._table(rows, indexed)
        with open_master(replace(self.settings, **settings), contract(name, rows)) as master:
            yield master

    def variables(self) -> dict[str, str]:
        """What the server says of itself, as far as it matters here."""
        wanted = "'version', 'innodb_buffer_pool_size', 'innodb_flush_method', 'innodb_page_size'"
        return dict(self._ask(f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({wanted})"))

    def counters(self) -> dict[str, int]:
        """Pages asked for and pages read by the server, bytes it read, and bytes that came from the device.

        The last one only of a server of our own: what it did not have to fetch came out of the file system's cache.
        """
        names = {
            "Innodb_buffer_pool_read_requests": "pool_requests",
            "Innodb_buffer_pool_reads": "pool_misses",
            "Innodb_data_read": "disk_bytes",
        }
        found = self._ask("SHOW GLOBAL STATUS LIKE 'Innodb_%'")
        counted = {names[name]: int(value) for name, value in found if name in names}
        if self._own is not None and self._own.pid:
            told = dict(line.split(": ") for line in Path(f"/proc/{self._own.pid}/io").read_text().splitlines())
            counted["device_bytes"] = int(told["read_bytes"])
        return counted

    def close(self) -> None:
        if self._own is not None:
            self._own.stop()
            self._folder.cleanup()

    def _table(self, rows: ComputedRows, indexed: bool) -> str:
        """The name of the table with these rows."""
        some = rows.keys_at(rows.numbers_at(np.linspace(0, rows.rows - 1, _SAMPLE).astype(np.int64)))
        shape = (rows.rows, rows.row_bytes, rows.unique, indexed, some.tolist())
        name = f"r{rows.rows}_{hashlib.sha256(repr(shape).encode()).hexdigest()[:10]}"
        if name not in self._tables:
            if self._own is not None:
                self._restart((f"--innodb-buffer-pool-size={_LOADING}",))
            self._fill(name, rows, indexed)
            if self._own is not None:
                self._restart(small_pool(self._pool))
            self._tables.add(name)
        return name

    def _fill(self, name: str, rows: ComputedRows, indexed: bool) -> None:
        with self._connection() as connection, connection.cursor() as cursor:
            if self._is_filled(cursor, name, rows.rows):
                return
            cursor.execute(f"DROP TABLE IF EXISTS {name}")
            cursor.execute(ddl(name, rows, indexed))
            cursor.execute("SET SESSION time_zone = '+00:00'")
            connection.begin()
            for first in range(0, rows.rows, _ROWS_A_STATEMENT):
                last = min(first + _ROWS_A_STATEMENT, rows.rows)
                cursor.execute(insert(name, rows, first, last))
                if last % _ROWS_A_COMMIT == 0:
                    connection.commit()
                    connection.begin()
            connection.commit()
            if indexed and not rows.unique:
                cursor.execute(f"ALTER TABLE {name} ADD INDEX by_key (k)")
            cursor.execute(f"ANALYZE TABLE {name}")

    def _is_filled(self, cursor: Any, name: str, rows: int) -> bool:
        if not cursor.execute("SHOW TABLES LIKE %s", (name,)):
            return False
        cursor.execute(f"SELECT COUNT(*) FROM {name}")
        return bool(cursor.fetchone() == (rows,))

    def _restart(self, options: tuple[str, ...]) -> None:
        assert self._own is not None
        self._own.stop()
        self._own.options = options
        start_on_free_ports(self._own)

    def _ask(self, statement: str) -> list[tuple[str, str]]:
        with self._connection() as connection, connection.cursor() as cursor:
            cursor.execute(statement)
            return [(str(name).lower() if "VARIABLES" in statement else str(name), value) for name, value in cursor]

    def _connection(self) -> AbstractContextManager[Any]:
        if self._own is not None:
            return closing(self._own.connect("owner", MASTER))
        where = self.settings
        return closing(connect(where.host, where.port, where.user, where.password, where.database))


def attributes(rows: ComputedRows) -> list[int]:
    """The bytes of each attribute, so that a row is as wide in Arrow as it should be."""
    left = rows.row_bytes - _FIXED
    number = min(_ATTRIBUTES, left // (_OFFSET + 1))
    return [left // number - _OFFSET + (one < left % number) for one in range(number)] if number else []


def contract(name: str, rows: ComputedRows) -> DimensionContract:
    kinds = {f"filler_{number}": pa.binary() for number, _ in enumerate(attributes(rows), start=1)}
    return DimensionContract(name, name, (KeyColumn("k", "k", "int64"),), "surrogate_key", "updated_at", kinds)


def ddl(name: str, rows: ComputedRows, indexed: bool) -> str:
    """By its key, if it is unique and has an index; else in the order in which the rows lie on the disk."""
    by_key = rows.unique and indexed
    columns = [
        "k BIGINT NOT NULL" + " PRIMARY KEY" * by_key,
        *([] if by_key else ["place BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY"]),
        "surrogate_key BIGINT NOT NULL",
        "updated_at TIMESTAMP(6) NOT NULL",
        *(f"filler_{number} BINARY({width}) NOT NULL" for number, width in enumerate(attributes(rows), start=1)),
    ]
    return f"CREATE TABLE {name} ({', '.join(columns)}) ENGINE = InnoDB"


def insert(name: str, rows: ComputedRows, first: int, last: int) -> str:
    """The rows at these places of the disk."""
    numbers = rows.numbers_at(np.arange(first, last))
    text = pc.cast(pa.array(numbers), pa.string())
    moments = pc.cast(pa.array(_FIRST_MOMENT + numbers), pa.string())
    columns: dict[str, Any] = {
        "k": pc.cast(pa.array(rows.keys_at(numbers)), pa.string()),
        "surrogate_key": pc.cast(pa.array(numbers + 1), pa.string()),
        "updated_at": pc.binary_join_element_wise("'", moments, "'", ""),
    }
    for number, width in enumerate(attributes(rows), start=1):
        padded = pc.utf8_slice_codeunits(pc.utf8_lpad(text, width, "0"), -width)
        columns[f"filler_{number}"] = pc.binary_join_element_wise("'", padded, "'", "")
    row = pc.binary_join_element_wise(*columns.values(), ",")
    values = pc.binary_join_element_wise("(", row, ")", "")
    return f"INSERT INTO {name} ({', '.join(columns)}) VALUES {','.join(values.to_pylist())}"
