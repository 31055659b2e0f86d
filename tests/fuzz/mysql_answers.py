"""Answers of a MySQL server: truncated, split anywhere, oversized, lying about their lengths.

What is accepted has to be what a plain reader finds who goes by the protocol's pages, a byte after the other.
"""

from __future__ import annotations

import random
import struct
import zlib

import pymysql

from pipeline.errors import BadContract
from pipeline.master.mysql.drivers import as_rows
from pipeline.master.mysql.wire import Wire
from tests.fuzz.damage import damaged
from tests.kit.recorded import END, Recorded, packets, result

READS = ["pipeline.master.mysql.wire"]
Rows = list[tuple["bytes | None", ...]]


def made(draw: random.Random) -> bytes:
    return damaged(draw, _answer(draw), lambda: _answer(draw), [END, packets(END), b"\xfb", b"\xfe", b"\0\0\0\0"])


def tried(data: bytes) -> bool:
    draw = random.Random(zlib.crc32(data))
    pieces = draw.choice([[1 << 20], [1 << 20], [draw.randint(1, 9)], [draw.randint(1, 400) for _ in range(4)]])
    wire = Wire(Recorded(data, pieces), timeout=60)  # type: ignore[arg-type]
    wire.send("SELECT")
    try:
        found = as_rows(wire.receive())
    except (pymysql.MySQLError, OSError, BadContract):
        return False
    assert found == _plainly_read(data)
    return True


def _plainly_read(data: bytes) -> Rows:
    at = 0

    def payload() -> bytes:
        nonlocal at
        length = int.from_bytes(data[at : at + 3], "little")
        assert len(data) >= at + 4 + length, "there is no whole packet"
        at += 4 + length
        return data[at - length : at]

    head = payload()
    assert head, "an empty packet begins no answer"
    if head[0] == 0:
        return []
    assert head[0] not in (0xFB, 0xFD, 0xFE, 0xFF), "that is no number of columns"
    columns = head[0] if head[0] < 0xFB else int.from_bytes(head[1:3], "little")
    for _ in range(columns + 1):
        assert payload()[0] != 0xFF
    rows: Rows = []
    while True:
        row = payload()
        assert row[0] != 0xFF, "an error is no row"
        if row[0] == 0xFE and len(row) < 9:
            return rows if columns else []
        rows.append(_cells(row, columns))


def _cells(row: bytes, columns: int) -> tuple[bytes | None, ...]:
    cells: list[bytes | None] = []
    at = 0
    for _ in range(columns):
        first = row[at]
        at += 1
        if first == 0xFB:
            cells.append(None)
            continue
        size = {0xFC: 2, 0xFD: 3}.get(first, 0)
        assert size or first < 0xFB
        length = int.from_bytes(row[at : at + size], "little") if size else first
        at += size
        assert at + length <= len(row), "a cell reaches over its row"
        cells.append(row[at : at + length])
        at += length
    assert at == len(row), "a row goes on behind its last cell"
    return tuple(cells)


def _answer(draw: random.Random) -> bytes:
    kind = draw.randrange(12)
    if kind == 0:
        return packets(b"\0\0\0\x02\0\0\0")
    error = b"\xff" + struct.pack("<H", draw.choice([1045, 1317, 2013])) + b"#42000no"
    if kind == 1:
        return packets(error)
    columns, number = draw.choice([1, 1, 2, 3, 7]), draw.choice([0, 1, 3, 16, 17, 18, 40, 120])
    odd = [None, b"", b"\0\0", b"\0" * 9, b"\x05\0\0\x01\xfe\0\0\0\0", b"x" * 250, b"y" * 251, b"z" * 300]
    likely = draw.choice([0.0, 0.1, 0.9])
    rows = [
        [draw.choice(odd) if draw.random() < likely else b"%d" % draw.randrange(9_999) for _ in range(columns)]
        for _ in range(number)
    ]
    return result(rows, columns, error if kind == 2 else END)
