"""Kafka's record batches as another client writes them, for the tests of the one that reads them."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.util import calc_crc32c

Message = tuple[int, int, bytes | None]  # offset within the batch, timestamp, value
NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CONTROL, STAMPED = 0x20, 0x08
ABORT, COMMIT = b"\0\0\0\0", b"\0\0\0\1"


def batch(
    base: int,
    messages: Sequence[Message],
    codec: int = NONE,
    producer: int = -1,
    transactional: bool = False,
    key: bytes | None = b"k",
    flags: int = 0,
    last: int | None = None,
) -> bytes:
    """One batch; `last` is the offset it says to end at, where compaction has taken the last ones."""
    epoch, sequence = (0, 0) if producer >= 0 else (-1, -1)
    builder = DefaultRecordBatchBuilder(2, codec, transactional, producer, epoch, sequence, 1 << 30)
    for offset, timestamp, value in messages:
        builder.append(offset, timestamp, key, value, [("h", b"1"), ("none", None)])
    data = bytearray(builder.build())
    struct.pack_into(">q", data, 0, base)
    (attributes,) = struct.unpack_from(">h", data, 21)
    struct.pack_into(">h", data, 21, attributes | flags)
    if last is not None:
        struct.pack_into(">i", data, 23, last - base)
    return sealed(data)


def control(base: int, producer: int, kind: bytes) -> bytes:
    return batch(base, [(0, 1_000, b"")], producer=producer, transactional=True, key=kind, flags=CONTROL)


def empty(base: int, last: int) -> bytes:
    """What compaction leaves of a batch whose messages are all gone."""
    data = bytearray(batch(base, [(0, 1_000, b"")], last=last)[:61])
    struct.pack_into(">i", data, 8, 61 - 12)
    struct.pack_into(">i", data, 57, 0)
    return sealed(data)


def sealed(data: bytearray) -> bytes:
    """With the checksum of what it is now."""
    struct.pack_into(">I", data, 17, calc_crc32c(bytes(data[21:])))
    return bytes(data)


def as_array(*batches: bytes) -> np.ndarray:
    return np.frombuffer(b"".join(batches), np.uint8)
