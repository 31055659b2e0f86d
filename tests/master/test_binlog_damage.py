"""A log that lies is refused with its place, in bounded time and memory; what was not damaged is told before."""

from __future__ import annotations

import struct

import pytest

from pipeline.master.mysql.binlog import events
from pipeline.master.mysql.binlog.events import LogDamaged
from tests.fuzz.mysql_log import compressed, event, followed
from tests.kit.recorded import packets

NAME = b"\x04shop\0\x05whole\0"
TABLE = struct.pack("<IHH", 71, 0, 1) + NAME + b"\x02\x08\xf6" + b"\x02\x0a\x02" + b"\0"
ROW = b"\0" + struct.pack("<q", 5) + b"\x80\0\0\0\0"
ROWS = struct.pack("<IHHH", 71, 0, 1, 2) + b"\x02\x03" + ROW
MAPPED, CHANGED, DONE = event(events.TABLE_MAP, TABLE), event(events.WRITES[1], ROWS), event(events.XID, bytes(8))
GOOD = [MAPPED, CHANGED, DONE]


def told(*written: bytes) -> list[set[int]]:
    """Keys of the table `whole`, until the log ends."""
    found = []
    try:
        for changes in followed(packets(*(b"\0" + one for one in written))):
            if "whole" in changes.keys:
                found.append(set(changes.keys["whole"].to_pylist()))
    except ConnectionResetError:
        return found
    raise AssertionError("a log that ends is an error")


def test_what_is_not_damaged_is_told() -> None:
    assert told(*GOOD) == told(compressed(b"".join(GOOD))) == told(compressed(b"".join(GOOD), really=False)) == [{5}]


ENDLESS = struct.pack("<IBIIIH", 1, events.XID, 1, 0, 0, 0)


@pytest.mark.parametrize(
    "damaged",
    [
        [compressed(ENDLESS)],
        [compressed(b"".join(GOOD), size=1 << 62)],
        [compressed(b"".join(GOOD), size=10)],
        [MAPPED, event(events.WRITES[1], ROWS[:-1])],
        [MAPPED, event(events.WRITES[1], b"\x47\0")],
        [event(events.TABLE_MAP, TABLE[:10])],
        [event(events.TABLE_MAP, TABLE[:-2])],
        [event(events.QUERY, b"")],
        [event(events.ROTATE, bytes(8) + b"\xff")],
        [b"\1\2\3"],
        [b""],
    ],
    ids=[
        "an event of no bytes within a transaction", "a size of 4 EiB", "a size that is too small", "a row cut off",
        "rows without a head", "a table's name cut off", "columns cut off", "a statement without a head",
        "a file whose name is no text", "half a header", "nothing",
    ],
)  # fmt: skip
def test_what_is_damaged_is_told_by_its_place(damaged: list[bytes]) -> None:
    with pytest.raises(LogDamaged, match=r"binary log near log\.000001:4 |binary log near .*:500 "):
        told(event(events.ROTATE, struct.pack("<Q", 4) + b"log.000001", 0), *damaged, DONE)
