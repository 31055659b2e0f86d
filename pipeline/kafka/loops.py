"""Kafka's record batches (format 2), taken apart by columns in compiled loops.

Every byte comes from outside. Nothing is read behind the end of what was fetched, nothing is believed that the bytes
do not bear out: what does not fit is told by its place, never passed over. To import this module compiles it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pipeline.compiling import compiled, numba, part

# The columns of the table of batches: where it lies, where its records begin and end, and what its header says.
AT, RECORDS, END, BASE_OFFSET, LAST_OFFSET, ATTRIBUTES, BASE_TIME, LATEST_TIME, PRODUCER, COUNT = range(10)
COLUMNS = 10
HEADER = 61  # bytes
LEAST_RECORD = 7  # bytes: length, attributes, two deltas, key, value, headers

# What a loop says of bytes that are no record batches, or no records.
WHOLE, OLD_FORMAT, BAD_LENGTH, BAD_CHECKSUM, BAD_COUNT, BAD_RECORD, BAD_OFFSET, BAD_END = range(8)

_FIRST_TIME, _LAST_TIME = -62_135_596_800_000, 253_402_300_800_000  # ms: the years 1 and 10000; windows are stricter

_Bytes = numba.types.Array(numba.uint8, 1, "C", readonly=True)
_Buffer = numba.types.Array(numba.uint8, 1, "C")
_Ints = numba.types.Array(numba.int32, 1, "C")
_Longs = numba.types.Array(numba.int64, 1, "C")
_Table = numba.types.Array(numba.int64, 2, "C")
_int = numba.int64


def _crc_tables() -> Any:
    """For sixteen bytes at a time: what each of them adds from where it stands."""
    tables = np.zeros((16, 256), np.uint32)
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        tables[0, byte] = value
    for distance in range(1, 16):
        before = tables[distance - 1]
        tables[distance] = (before >> 8) ^ tables[0][before & 0xFF]
    return tables


_CRC = _crc_tables()


@compiled(numba.uint32(_Bytes, _int, _int))
def crc32c(data: Any, begin: Any, end: Any) -> Any:
    """Castagnoli's checksum."""
    crc = np.uint32(0xFFFFFFFF)
    at = np.uint64(begin)
    stop, step = np.uint64(end), np.uint64(16)
    while at + step <= stop:
        one = _CRC[15, np.uint64((crc ^ data[at]) & np.uint32(0xFF))]
        one ^= _CRC[14, np.uint64(((crc >> np.uint32(8)) ^ data[at + np.uint64(1)]) & np.uint32(0xFF))]
        one ^= _CRC[13, np.uint64(((crc >> np.uint32(16)) ^ data[at + np.uint64(2)]) & np.uint32(0xFF))]
        one ^= _CRC[12, np.uint64(((crc >> np.uint32(24)) ^ data[at + np.uint64(3)]) & np.uint32(0xFF))]
        for byte in range(4, 16):
            one ^= _CRC[np.uint64(15 - byte), np.uint64(data[at + np.uint64(byte)])]
        crc = one
        at += step
    while at < stop:
        crc = _CRC[0, np.uint64((crc ^ data[at]) & np.uint32(0xFF))] ^ (crc >> np.uint32(8))
        at += np.uint64(1)
    return crc ^ np.uint32(0xFFFFFFFF)


@part
def _number(data: Any, at: Any, size: Any) -> Any:
    """A number of so many bytes, the highest first. The caller knows that they are there."""
    value = np.int64(np.int8(data[at]))
    for byte in range(1, size):
        value = (value << 8) | np.int64(data[at + byte])
    return value


@compiled(numba.types.UniTuple(_int, 2)(_Bytes, _Table))  # type: ignore[no-untyped-call]
def batches(data: Any, table: Any) -> Any:
    """The batches that lie in these bytes, a row each; returns how many, and what is wrong with the next.

    The last one may be cut off, by the most that was asked for: it is left out. `table` has a row for all there can be.
    """
    at, found, size = 0, 0, len(data)
    while size - at >= 17:
        length = _number(data, at + 8, 4)
        if data[at + 16] != 2:
            return found, OLD_FORMAT
        if length < HEADER - 12:
            return found, BAD_LENGTH
        end = at + 12 + length
        if end > size:
            break
        count, last = _number(data, at + 57, 4), _number(data, at + 23, 4)
        table[found, AT], table[found, RECORDS], table[found, END] = at, at + HEADER, end
        table[found, BASE_OFFSET] = _number(data, at, 8)
        table[found, LAST_OFFSET] = table[found, BASE_OFFSET] + last
        table[found, ATTRIBUTES] = _number(data, at + 21, 2)
        table[found, BASE_TIME], table[found, LATEST_TIME] = _number(data, at + 27, 8), _number(data, at + 35, 8)
        table[found, PRODUCER], table[found, COUNT] = _number(data, at + 43, 8), count
        if crc32c(data, at + 21, end) != np.uint32(_number(data, at + 17, 4) & 0xFFFFFFFF):
            return found, BAD_CHECKSUM
        if count < 0 or last < 0 or count > last + 1 or table[found, BASE_OFFSET] < 0:
            return found, BAD_COUNT
        if found and table[found, BASE_OFFSET] <= table[found - 1, LAST_OFFSET]:
            return found, BAD_OFFSET
        found, at = found + 1, end
    return found, WHOLE


@part
def _varint(data: Any, at: Any, end: Any) -> Any:
    """A zigzag number of up to ten bytes, and the place behind it: -1 if it does not end before `end`."""
    value, shift = np.uint64(0), np.uint64(0)
    found = np.int64(-1)
    while at < end and shift < np.uint64(64):
        byte = np.uint64(data[at])
        at += 1
        value |= (byte & np.uint64(0x7F)) << shift
        if byte < np.uint64(0x80):
            found = at
            break
        shift += np.uint64(7)
    return np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1)), found


_SIGNATURE = numba.types.UniTuple(_int, 4)(  # type: ignore[no-untyped-call]
    _Bytes, _Table, _int, _int, _Buffer, _Ints, _Buffer, _Longs, _Longs
)


@compiled(_SIGNATURE)
def records(
    data: Any, table: Any, first: Any, end: Any, values: Any, ends: Any, present: Any, offsets: Any, times: Any
) -> Any:
    """The records of these batches from offset `first` up to `end`, a row each.

    `values`: their values end to end; `ends[row + 1]`: where each ends; `present`: whether there is one. The caller has
    made room for all records of all batches. Returns the rows, the bytes of the values, and what is wrong with the
    records of which batch.
    """
    rows, used = 0, 0
    for batch in range(len(table)):
        at, stop = table[batch, RECORDS], table[batch, END]
        last_delta, before = table[batch, LAST_OFFSET] - table[batch, BASE_OFFSET], -1
        stamped = table[batch, ATTRIBUTES] & 8  # by the broker: one time for all
        for _ in range(table[batch, COUNT]):
            length, at = _varint(data, at, stop)
            if at < 0 or length < 0 or length > stop - at:
                return rows, used, BAD_RECORD, batch
            over = at + length
            time_delta, at = _varint(data, at + 1, over)
            if at < 0:
                return rows, used, BAD_RECORD, batch
            delta, at = _varint(data, at, over)
            if at < 0:
                return rows, used, BAD_RECORD, batch
            if delta <= before or delta > last_delta:
                return rows, used, BAD_OFFSET, batch
            before = delta
            key, at = _varint(data, at, over)
            if at < 0 or key > over - at:
                return rows, used, BAD_RECORD, batch
            at += max(key, 0)
            value, at = _varint(data, at, over)
            if at < 0 or value > over - at:
                return rows, used, BAD_RECORD, batch
            offset = table[batch, BASE_OFFSET] + delta
            if first <= offset < end:
                for byte in range(value):
                    values[np.uint64(used + byte)] = data[np.uint64(at + byte)]
                used += max(value, 0)
                present[rows] = value >= 0
                ends[rows + 1], offsets[rows] = used, offset
                time = table[batch, LATEST_TIME] if stamped else table[batch, BASE_TIME] + time_delta
                times[rows] = min(max(time, _FIRST_TIME), _LAST_TIME) * 1000
                rows += 1
            at = over
        if at != stop:
            return rows, used, BAD_END, batch
    return rows, used, WHOLE, 0
