"""What a key costs the database server, by the way it is asked for: asking.py [rows] [keys] [turns].

The server's own processor time a key, which other work on the machine does not add to; nothing else uses the server.
One table of R rows as `product` is, in the page pool, and its rows again under a text that is compared by its bytes
(`utf8mb4_bin`) and under a whole number, each of which is a primary key. Keys are drawn evenly, a few thousand a
statement, all of them there: such are the keys that a cache of the wanted rows leaves over. All ways take turns; what
is told is the median, and what it is to what everybody writes: `IN`, with the columns that a fact needs, in the order
in which sales came. Of that and of the way in which Millrace asks (`JSON_TABLE`) also by the number of keys in a
statement.

The database by MILLRACE_DATABASE, as in the tests; results of several servers stand in one file.
"""

from __future__ import annotations

import json
import statistics
import struct
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from pipeline.bench.server.database import BenchDatabase
from pipeline.generate.keys import Sizes, product_codes
from pipeline.generate.seed import seed
from pipeline.laptop.stack.stack import start_on_free_ports
from tests.benchmarks.join_lab import RESULTS, host
from tests.kit.mysql_server import asked_for

POOL = 1 << 30  # bytes: no way waits for a disk
KEYS_A_STATEMENT = 5_000
SIZES = (1, 5, 20, 100, 1_000, 20_000)
USED = "product_key, updated_at, category, brand"  # what a fact needs beside the key
LIST = "IN, as sales come"
_AS_OURS = (  # as a session of Millrace; the last three: a long list stays a range over the index
    "SET NAMES utf8mb4",
    "SET SESSION autocommit = 1, time_zone = '+00:00', sql_mode = ''",
    "SET SESSION range_optimizer_max_mem_size = 0",
    "SET SESSION in_predicate_conversion_threshold = 0",
    "SET SESSION optimizer_max_sel_arg_weight = 0",
)

Keys = Sequence[Any]


@dataclass(frozen=True)
class Kind:
    """Keys of one type, and the table that has them as its primary key."""

    name: str
    table: str
    column: str
    sql: str  # the column's type
    packed: Callable[[Keys], tuple[bytes, bytes]]  # for the binary protocol: a type, and the values

    @property
    def from_(self) -> str:
        return f"FROM {self.table} FORCE INDEX (PRIMARY)"

    def literal(self, key: Any) -> str:
        return str(key) if isinstance(key, int) else f"'{key}'"

    def listed(self, keys: Keys) -> str:
        return ",".join(map(self.literal, keys))


def _texts(keys: Keys) -> tuple[bytes, bytes]:
    return b"\xfd\x00", b"".join(bytes([len(key)]) + key.encode() for key in keys)


def _numbers(keys: Keys) -> tuple[bytes, bytes]:
    return b"\x08\x00", struct.pack(f"<{len(keys)}q", *keys)


TEXT = Kind("text", "product", "product_code", "VARCHAR(32) CHARACTER SET utf8mb4", _texts)
BYTES = Kind("text_bin", "by_bytes", "code", "VARCHAR(32) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", _texts)
NUMBER = Kind("number", "by_number", "number", "BIGINT", _numbers)
KINDS = TEXT, BYTES, NUMBER


class Session:
    """A connection that hands its answers' packets to nobody: only the server is looked at."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.cursor = connection.cursor()
        for statement in _AS_OURS:
            self.try_(statement)

    def try_(self, statement: str) -> bool:
        """Whether the server knows it."""
        try:
            self.cursor.execute(statement)
            return True
        except Exception:  # noqa: BLE001 each server knows some of them
            return False

    def ask(self, sql: str) -> int:
        self._connection._execute_command(3, sql)
        return self._rows()

    def prepare(self, sql: str) -> bytes:
        """A statement's number at the server."""
        self._connection._execute_command(0x16, sql)
        head = self._connection._read_packet()._data
        columns, parameters = struct.unpack_from("<HH", head, 5)
        for number in (parameters, columns):
            for _ in range(number + bool(number)):  # their descriptions, and the end of these
                self._connection._read_packet()
        return bytes(head[1:5])

    def execute(self, statement: bytes, kind: Kind, keys: Keys) -> int:
        type_, values = kind.packed(keys)
        nulls = bytes((len(keys) + 7) // 8)
        head = statement + b"\x00" + struct.pack("<I", 1) + nulls + b"\x01" + type_ * len(keys)
        self._connection._execute_command(0x17, head + values)
        return self._rows()

    def _rows(self) -> int:
        columns = self._connection._read_packet()._data[0]
        for _ in range(columns + 1):
            self._connection._read_packet()
        rows = 0
        while not self._connection._read_packet().is_eof_packet():
            rows += 1
        return rows


Way = Callable[[Session, Kind, Keys], int]


def _in(columns: str) -> Way:
    def ask(session: Session, kind: Kind, keys: Keys) -> int:
        select = ", ".join(filter(None, [kind.column, columns]))
        return session.ask(f"SELECT {select} {kind.from_} WHERE {kind.column} IN ({kind.listed(keys)})")

    return ask


class Prepared:
    """`IN` with as many placeholders, prepared once a session."""

    def __init__(self) -> None:
        self._known: dict[tuple[Session, Kind], bytes] = {}

    def __call__(self, session: Session, kind: Kind, keys: Keys) -> int:
        if (session, kind) not in self._known:
            places = ",".join("?" * len(keys))
            self._known[session, kind] = session.prepare(
                f"SELECT {kind.column}, {USED} {kind.from_} WHERE {kind.column} IN ({places})"
            )
        return session.execute(self._known[session, kind], kind, keys)


def _sorted(way: Way) -> Way:
    return lambda session, kind, keys: way(session, kind, sorted(keys))


def _values(session: Session, kind: Kind, keys: Keys) -> int:
    row = "" if session.cursor.connection.get_server_info().find("MariaDB") >= 0 else "ROW"
    rows = ",".join(f"{row}({kind.literal(key)})" for key in keys)
    return session.ask(
        f"WITH wanted(k) AS (VALUES {rows}) SELECT {kind.column}, {USED} "
        f"FROM wanted STRAIGHT_JOIN {kind.table} FORCE INDEX (PRIMARY) ON {kind.column} = wanted.k"
    )


def _json(session: Session, kind: Kind, keys: Keys) -> int:
    return session.ask(
        f"SELECT {kind.column}, {USED} FROM JSON_TABLE('{json.dumps(list(keys))}', '$[*]' COLUMNS (k {kind.sql} "
        f"PATH '$')) AS wanted STRAIGHT_JOIN {kind.table} FORCE INDEX (PRIMARY) ON {kind.column} = wanted.k"
    )


def _temporary(session: Session, kind: Kind, keys: Keys) -> int:
    """It takes a right that Millrace's account does not have."""
    session.cursor.execute(f"CREATE TEMPORARY TABLE IF NOT EXISTS w_{kind.name} (k {kind.sql}) ENGINE = MEMORY")
    session.cursor.execute(f"TRUNCATE w_{kind.name}")
    session.cursor.execute(f"INSERT INTO w_{kind.name} VALUES {','.join(f'({kind.literal(key)})' for key in keys)}")
    return session.ask(
        f"SELECT {kind.column}, {USED} FROM w_{kind.name} STRAIGHT_JOIN {kind.table} ON {kind.column} = k"
    )


WAYS: dict[str, Way] = {
    LIST: _in(USED),
    "IN, sorted": _sorted(_in(USED)),
    "IN, surrogate key only": _in("product_key"),
    "IN, key only": _in(""),
    "prepared, binary protocol": Prepared(),
    "VALUES": _values,
    "VALUES, sorted": _sorted(_values),
    "JSON_TABLE": _json,
    "JSON_TABLE, sorted": _sorted(_json),
    "temporary table": _temporary,
}


def main(rows: int, keys: int, turns: int) -> None:
    with tempfile.TemporaryDirectory(prefix="millrace-asking-") as folder:
        database = BenchDatabase(Path(folder), supervised=True, program=asked_for)
        start_on_free_ports(database)
        try:
            told = {"rows": rows, "keys": keys, "turns": turns, **measured(database, rows, keys, turns)}
        finally:
            database.stop()
    file = RESULTS / "asking.json"
    document = json.loads(file.read_text()) if file.exists() else {}
    document[database.kind] = {"host": host(), **told}
    file.write_text(json.dumps(document, indent=1) + "\n")


def measured(database: BenchDatabase, rows: int, keys: int, turns: int) -> dict[str, object]:
    database.execute(f"SET GLOBAL innodb_buffer_pool_size = {POOL}")
    with database.connect("owner") as connection:
        filled(connection, rows)
        version = connection.get_server_info()
    found: dict[str, dict[str, list[float]]] = {kind.name: {name: [] for name in WAYS} for kind in KINDS}
    with database.connect("owner") as connection:
        session = Session(connection)
        for turn in range(turns + 1):
            for kind in KINDS:
                batches = list(drawn(kind, rows, keys, turn))
                for name, ask in WAYS.items():
                    micros = cost(lambda some, ask=ask, kind=kind: ask(session, kind, some), batches, database.pid)
                    if turn:  # the first one warms pool, sessions and statements
                        found[kind.name][name].append(micros)
        by_size = {size: small(session, rows, size, database.pid) for size in SIZES}
    medians = {kind: {name: statistics.median(of) for name, of in ways.items()} for kind, ways in found.items()}
    for kind, ways in medians.items():
        for name, micros in ways.items():
            print(
                f"{database.kind} {kind:8} {name:26} {micros:5.2f} us a key, {micros / ways[LIST]:.2f}",
                flush=True,
            )
    for size, ways in by_size.items():
        print(
            f"{database.kind} {size:6} keys a statement:", {name: round(of, 2) for name, of in ways.items()}, flush=True
        )
    return {"version": version, "us_a_key": found, "medians": medians, "us_a_key_by_size": by_size}


def small(session: Session, rows: int, size: int, server: int | None) -> dict[str, float]:
    """Of text keys, so many a statement."""
    statements = max(5, min(2_000, 50_000 // size))
    found: dict[str, list[float]] = {LIST: [], "JSON_TABLE": []}
    for turn in range(4):
        batches = list(drawn(TEXT, rows, statements * size, turn, size))
        for name, of in found.items():
            ask = WAYS[name]
            of.append(cost(lambda some, ask=ask: ask(session, TEXT, some), batches, server))
    return {name: statistics.median(of[1:]) for name, of in found.items()}


def filled(connection: Any, rows: int) -> None:
    """The products, and the same rows by whole numbers."""
    seed(connection, Sizes(rows, 1, 1), progress=False)
    with connection.cursor() as cursor:
        number = "CAST(SUBSTRING(product_code, 3) AS SIGNED)"
        for kind, key in ((BYTES, "product_code"), (NUMBER, number)):
            cursor.execute(
                f"CREATE TABLE {kind.table} ({kind.column} {kind.sql} PRIMARY KEY, product_key BIGINT NOT NULL, "
                "name VARCHAR(120), category VARCHAR(40), brand VARCHAR(40), updated_at TIMESTAMP(6))"
            )
            cursor.execute(
                f"INSERT INTO {kind.table} SELECT {key}, product_key, name, category, brand, updated_at "
                f"FROM {TEXT.table} ORDER BY product_code"
            )
        connection.commit()
        for table in (kind.table for kind in KINDS):
            cursor.execute(f"ANALYZE TABLE {table}")
            cursor.fetchall()
            cursor.execute(f"SELECT COUNT(name) FROM {table}")


def drawn(kind: Kind, rows: int, keys: int, turn: int, at_once: int = KEYS_A_STATEMENT) -> Iterator[Keys]:
    """No key twice in a statement."""
    random = np.random.default_rng(turn)
    for _ in range(keys // at_once):
        numbers = random.choice(rows, at_once, replace=False)
        yield (numbers + 1).tolist() if kind is NUMBER else product_codes(numbers).to_pylist()


def cost(ask: Callable[[Keys], int], batches: Sequence[Keys], server: int | None) -> float:
    """The server's microseconds of processor a key."""
    before = threads_seconds(server)
    for keys in batches:
        if (rows := ask(keys)) != len(keys):
            raise SystemExit(f"{len(keys)} keys were asked for, and {rows} rows came")
    return (threads_seconds(server) - before) / sum(map(len, batches)) * 1e6


def threads_seconds(process: int | None) -> float:
    """Of processor, to the nanosecond, by the threads that a process has: a session keeps its own."""
    tasks = Path(f"/proc/{process}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


if __name__ == "__main__":
    given = [*map(int, sys.argv[1:]), *(2_000_000, 200_000, 3)[len(sys.argv) - 1 :]]
    main(*given)
