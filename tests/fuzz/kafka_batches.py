"""Kafka's record batches: the compiled loops that take them apart, in memory with nothing around it.

What is accepted has to be what kafka-python reads, which shares no code with them.
"""

from __future__ import annotations

import random
import zlib

import numpy as np
from kafka.record.memory_records import MemoryRecords

from pipeline.errors import CorruptMessages
from pipeline.kafka.recordset import RecordSet
from tests.fuzz.damage import damaged
from tests.kit.guarded import Guarded
from tests.kit.record_batches import (
    ABORT,
    COMMIT,
    CONTROL,
    GZIP,
    LZ4,
    NONE,
    SNAPPY,
    STAMPED,
    ZSTD,
    batch,
    control,
    empty,
    sealed,
)

READS = ["pipeline.kafka"]
_HEADER, _CRC, _MAGIC = 61, 17, 16
_NOON = 1_767_355_200_000
_memory = Guarded()


def made(draw: random.Random) -> bytes:
    data = b"".join(_batches(draw))
    hurt = damaged(draw, data, lambda: b"".join(_batches(draw)))
    # Mostly with the right checksum: else nothing behind it would ever be tried.
    return hurt if draw.random() < 0.1 else mended(hurt)


def mended(data: bytes) -> bytes:
    """With the magic number and the checksum that let it pass."""
    pieces, at = [], 0
    while len(data) - at >= _HEADER:
        length = int.from_bytes(data[at + 8 : at + 12], "big", signed=True)
        end = at + 12 + length
        if length < _HEADER - 12 or end > len(data):
            break
        piece = bytearray(data[at:end])
        piece[_MAGIC] = 2
        pieces.append(sealed(piece))
        at = end
    return b"".join([*pieces, data[at:]])


def tried(data: bytes) -> bool:
    """Whether it was taken for record batches."""
    data = data[: _memory.room]
    draw = random.Random(zlib.crc32(data))
    first = draw.choice([0, 0, 0, 3, 1 << 40])
    end = draw.choice([1 << 62, 1 << 62, first + 4])
    aborted = draw.choice([[], [], [(7, 0)], [(7, 2), (8, 0)]])
    view = np.frombuffer(_memory.holding(data, draw.random() < 0.9), np.uint8)
    found: list[tuple[int, bytes | None]] = []
    try:
        records = RecordSet("sales", 3, view, first, aborted)
        for some in records.messages(first, end):
            some.validate(full=True)
            found += zip(some["offset"].to_pylist(), some["value"].to_pylist(), strict=True)
    except CorruptMessages as refused:
        assert "sales/3" in str(refused)
        return False
    assert records.next_offset >= first
    if not aborted and (theirs := _as_kafka_python_reads(data, first)) is not None:
        assert found == [(offset, value) for offset, value in theirs if first <= offset < end]
    return bool(found)


def _as_kafka_python_reads(data: bytes, first: int) -> list[tuple[int, bytes | None]] | None:
    """None: it refuses, or cannot say. A batch that says, under its checksum, that it ends before is left alone."""
    found = []
    try:
        batches = MemoryRecords(data)
        while (some := batches.next_batch()) is not None:
            if not some.is_control_batch and some.base_offset + some.last_offset_delta >= first:
                found += [(record.offset, record.value) for record in some]
    except Exception:  # noqa: BLE001 its errors have no base; it also looks into headers, which we leave alone
        return None
    return found


def _batches(draw: random.Random) -> list[bytes]:
    base, made = draw.choice([0, 0, 5]), []
    for _ in range(draw.choice([1, 1, 2, 4])):
        kind = draw.randrange(8)
        if kind == 0:
            made.append(control(base, draw.choice([7, 8]), draw.choice([ABORT, COMMIT])))
            base += 1
        elif kind == 1:
            made.append(empty(base, base + 3))
            base += 4
        else:
            offsets = sorted(draw.sample(range(12), draw.choice([1, 2, 5])))
            values = [draw.choice([None, b"", b"sale", draw.randbytes(40), b"x" * 300]) for _ in offsets]
            messages = [(offset, _NOON + offset, value) for offset, value in zip(offsets, values, strict=True)]
            codec = draw.choice([NONE, NONE, NONE, GZIP, SNAPPY, LZ4, ZSTD])
            producer = draw.choice([-1, -1, 7, 8])
            key = draw.choice([None, b"", b"key", b"k" * 200])
            flags = draw.choice([0, 0, 0, STAMPED, CONTROL])
            made.append(batch(base, messages, codec, producer, producer > 0, key, flags))
            base += 12
    return made
