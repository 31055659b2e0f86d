"""The binary log as a server sends it to a replica: followed to the end, or refused as damaged.

Without checksums, as `binlog_checksum = NONE` has it: with them nothing that is damaged would get any further.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pymysql

from pipeline.config.settings import MasterData
from pipeline.errors import FeedRefused
from pipeline.master.feed import Changes
from pipeline.master.mysql.binlog import events, follow
from pipeline.master.mysql.wire import Columns
from tests.fuzz.damage import damaged
from tests.kit.master_fixtures import dimension
from tests.kit.recorded import Recorded, packets

READS = ["pipeline.master.mysql.binlog"]
_KEYS = {"whole": {"n": "int64"}, "part": {"a": "string", "b": "uint64"}}
_BOTH = {name: replace(dimension(key, table=name), name=name) for name, key in _KEYS.items()}
_COLUMNS = {
    "whole": [("n", "bigint", "bigint", "", "", "NO"), ("price", "decimal", "decimal(10,2)", "", "", "YES")],
    "part": [
        ("b", "bigint", "bigint unsigned", "", "", "NO"),
        ("a", "varchar", "varchar(300)", "utf8mb4", "utf8mb4_bin", "NO"),
        ("note", "blob", "blob", "", "", "YES"),
        ("kind", "enum", "enum('x')", "latin1", "latin1_bin", "YES"),
    ],
}  # fmt: skip
_MAPS = {
    "whole": (b"\x08\xf6", b"\x0a\x02"),  # BIGINT, DECIMAL(10, 2)
    "part": (b"\x08\x0f\xfc\xfe", b"\xb0\x04\x02\xf7\x01"),  # BIGINT, VARCHAR(1200 bytes), BLOB, ENUM
}
_NUMBERS = {"whole": 71, "part": 72}


class _Server:
    """Says what a real one says to the questions before its log."""

    def __init__(self, log: bytes) -> None:
        self.socket, self._asked = Recorded(log, [1 << 18]), ""

    def send(self, sql: str) -> None:
        self._asked = sql

    def receive(self) -> Columns:
        rows: list[Any] = []
        if "SHOW GLOBAL VARIABLES" in self._asked:
            rows = [("log_bin", "ON"), ("binlog_format", "ROW"), ("server_uuid", "u")]
        elif "STATUS" in self._asked:
            rows = [("log.000001", "4", "", "")]
        elif "SHOW CREATE TABLE" in self._asked:
            rows = [("whole", "CREATE TABLE `whole` (`n` bigint)")]
        elif "binlog_checksum" in self._asked and "SELECT" in self._asked:
            rows = [("NONE",)]
        elif "information_schema.COLUMNS" in self._asked:
            rows = next(rows for table, rows in _COLUMNS.items() if table.encode().hex() in self._asked)
        return [pa.chunked_array([pa.array([v.encode() for v in column])]) for column in zip(*rows, strict=True)]

    def close(self) -> None:
        pass


def made(draw: random.Random) -> bytes:
    return damaged(draw, _log(draw), lambda: _log(draw), [packets(event(draw.choice([2, 4, 15, 19, 30, 40]), b""))])


def tried(data: bytes) -> bool:
    """Whether any change was told."""
    told = 0
    try:
        for changes in followed(data):
            told += bool(changes.keys) + bool(changes.all_of)
    except (OSError, pymysql.MySQLError, FeedRefused) as error:
        assert str(error)
    return told > 0


def followed(log: bytes) -> Iterator[Changes]:
    """What is told of two tables, until the log ends."""
    feed = follow.BinlogFeed(MasterData(database="shop"), _BOTH)
    with patch.object(follow, "connect", lambda _: _Server(log)), patch.object(follow.time, "sleep"):
        yield from feed.follow("u/log.000001:4")


def _log(draw: random.Random) -> bytes:
    said = [event(events.ROTATE, struct.pack("<Q", 4) + b"log.000001", 0)]
    if draw.random() < 0.5:
        said.append(
            event(events.FORMAT, b"\x04\0" + b"8.0".ljust(50, b"\0") + bytes(5) + b"\x13" + bytes(40) + b"\0" * 5)
        )
    for _ in range(draw.choice([1, 1, 2, 4])):
        said += _transaction(draw)
    return packets(*(b"\0" + one for one in said))


def _transaction(draw: random.Random) -> list[bytes]:
    begin = event(events.QUERY, struct.pack("<IIBHH", 1, 0, 4, 0, 0) + b"shop\0BEGIN")
    if (kind := draw.randrange(8)) == 0:
        statement = draw.choice([b"ALTER TABLE whole ADD x INT", b"XA COMMIT 'x'", b"DROP DATABASE shop", b"COMMIT"])
        return [event(events.QUERY, struct.pack("<IIBHH", 1, 0, 4, 0, 2) + b"\0\0shop\0" + statement)]
    if kind == 1:
        return [begin, event(draw.choice([*events.COMPRESSED, events.INCIDENT, events.PARTIAL_UPDATES]), bytes(20))]
    table = draw.choice(["whole", "part", "whole", "other"])
    rows = [_described(table), *(_rows(draw, table) for _ in range(draw.choice([1, 1, 3])))]
    if kind > 2:
        return [begin, *rows, event(events.XID, bytes(8))]
    plain = b"".join([begin, *rows, event(events.XID, bytes(8))])
    return [compressed(plain, kind == 2)]


def compressed(plain: bytes, really: bool = True, size: int | None = None) -> bytes:
    """A transaction as `binlog_transaction_compression` has it; `size` is what it says to be."""
    packed, how = (pa.compress(plain, "zstd", asbytes=True), 0) if really else (plain, 255)
    numbers = {2: how, 1: len(packed), 3: len(plain) if size is None else size}
    fields = b"".join(bytes([field]) + b"\x09\xfe" + struct.pack("<Q", number) for field, number in numbers.items())
    return event(events.PAYLOAD, fields + b"\0" + packed)


def event(kind: int, body: bytes, end: int = 500) -> bytes:
    return struct.pack("<IBIIIH", 1_700_000_000, kind, 1, 19 + len(body), end, 0) + body


def _described(table: str) -> bytes:
    kinds, about = _MAPS.get(table, _MAPS["whole"])
    name = b"\x04shop\0" + bytes([len(table)]) + table.encode() + b"\0"
    columns = bytes([len(kinds)]) + kinds + bytes([len(about)]) + about + b"\0"
    return event(events.TABLE_MAP, struct.pack("<IHH", _NUMBERS.get(table, 73), 0, 1) + name + columns)


def _rows(draw: random.Random, table: str) -> bytes:
    kinds = draw.choice([events.WRITES, events.UPDATES, events.DELETES])
    kind, columns = kinds[1], len(_MAPS.get(table, _MAPS["whole"])[0])
    images = 2 if kinds is events.UPDATES else 1
    full = bytes([(1 << columns) - 1])
    body = struct.pack("<IHHH", _NUMBERS.get(table, 73), 0, 1, 2) + bytes([columns]) + full * images
    for _ in range(images * draw.choice([1, 2, 20])):
        null = draw.choice([0, 0, 1 << columns - 1])
        number = draw.choice([5, -1, draw.getrandbits(62)])
        body += bytes([null]) + struct.pack("<q", number)
        if table == "part":
            text, blob = draw.choice([b"", b"P-1", "ä".encode(), b"\xff"]), draw.randbytes(draw.choice([0, 5, 300]))
            body += struct.pack("<H", len(text)) + text + struct.pack("<H", len(blob)) + blob + (b"" if null else b"\1")
        elif not null:
            body += b"\x80\0\0\0\0"
    return event(kind, body)
