"""One statement and its answer over an open MySQL connection, decoded by whole columns.

The answer of the text protocol is a chain of packets, a row each: three bytes of length, one of sequence, then the
cells, each behind its own length. The drivers make Python objects of every cell, which takes longer than the server
takes to read the row. Here the rows are found and their cells cut out by array operations, a megabyte at a time.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.errors import BadContract
from pipeline.master.mysql.session import refusal

Columns = list[pa.ChunkedArray]  # of binary; a null is a null

_QUERY = b"\x03"
_HEADER = 4  # bytes of a packet before its payload
_LONGEST = 0xFFFFFF  # payload; a longer one goes on in the next packet
_OK, _FILE, _END, _ERROR = 0x00, 0xFB, 0xFE, 0xFF  # the first byte of a packet that is no row
_BUFFER = 1 << 20
_BLOCK = 3 * _BUFFER // 4  # bytes of rows that are decoded together
_FEW = 16  # rows for which a loop is faster than starting array operations
_NULL, _TWO, _THREE = 0xFB, 0xFC, 0xFD  # a cell's first byte, if it is not the length itself

_length_at = struct.Struct("<I").unpack_from

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]


class Garbled(ConnectionError):
    """What came is no answer as a server gives it: whoever gave it, the connection is of no use any more."""

    def __init__(self) -> None:
        super().__init__("the server's answer is garbled: its lengths do not fit together")


class Wire:
    """Sends a statement and receives its answer; nothing else may use the socket meanwhile."""

    def __init__(self, connected: socket.socket, timeout: float) -> None:
        self._socket = connected
        self._timeout = timeout
        self._deadline = 0.0
        self._buffer: Bytes = np.empty(_BUFFER, np.uint8)  # of which the system gives only what is touched
        self._at = self._end = 0  # what is received and not yet taken

    def send(self, sql: str) -> None:
        """Hand a statement to the server, which begins to work on it."""
        self._deadline = time.monotonic() + self._timeout
        self._socket.settimeout(self._timeout)
        payload = _QUERY + sql.encode()
        pieces = [payload[first : first + _LONGEST] for first in range(0, len(payload), _LONGEST)]
        if len(pieces[-1]) == _LONGEST:
            pieces.append(b"")
        for number, piece in enumerate(pieces):
            self._socket.sendall(struct.pack("<I", len(piece) | number << 24) + piece)

    def receive(self) -> Columns:
        """The answer to what was sent last; no columns for a statement that has none. Within the timeout as a whole."""
        self._deadline = time.monotonic() + self._timeout
        self._at = self._end = 0
        head = self._packet()
        if head[0] == _OK:
            return []
        if head[0] in (_FILE, _THREE, _END) or (head[0] == _TWO and len(head) < 3):
            raise Garbled
        number = head[0] if head[0] < _NULL else head[1] | head[2] << 8
        for _ in range(number + 1):  # their descriptions, and the end of these
            self._packet()
        return self._rows(number)

    def _rows(self, number: int) -> Columns:
        blocks: list[list[pa.Array]] = []
        starts: list[Places] = []
        found, behind = _rows_in(self._buffer[: self._end], self._at)
        while not (len(found) and self._is_end(int(found[-1]))):
            starts.append(found)
            if behind - self._at > _BLOCK:
                blocks.append(_cells(self._buffer[:behind], np.concatenate(starts), number))
                self._drop(behind)
                starts, behind = [], 0
            self._more()
            found, behind = _rows_in(self._buffer[: self._end], behind)
        blocks.append(_cells(self._buffer[: found[-1]], np.concatenate([*starts, found[:-1]]), number))
        return [pa.chunked_array([block[i] for block in blocks]) for i in range(number)]

    def _is_end(self, start: int) -> bool:
        """Whether the packet is the one behind the rows. An error may come there too."""
        length = _length_at(self._buffer.data, start)[0] & _LONGEST
        if not length:
            raise Garbled
        first = self._buffer[start + _HEADER]
        if first == _ERROR:
            raise refusal(self._buffer[start + _HEADER : start + _HEADER + length].tobytes())
        return bool(first == _END and length < 9)

    def _packet(self) -> bytes:
        while self._end - self._at < _HEADER or self._end < (end := self._at + _HEADER + self._length()):
            self._more()
        payload = self._buffer[self._at + _HEADER : end].tobytes()
        self._at = end
        if not payload:
            raise Garbled
        if payload[0] == _ERROR:
            raise refusal(payload)
        return payload

    def _length(self) -> int:
        return int(_length_at(self._buffer.data, self._at)[0]) & _LONGEST

    def _more(self) -> None:
        """Receive what there is."""
        if self._end == len(self._buffer):
            self._buffer = np.concatenate([self._buffer, np.empty_like(self._buffer)])
        remaining = self._deadline - time.monotonic()
        if remaining <= 0:
            raise TimeoutError(f"no answer within {self._timeout} s")
        self._socket.settimeout(remaining)
        received = self._socket.recv_into(self._buffer.data[self._end :])
        if not received:
            raise ConnectionResetError("the server closed the connection in the middle of an answer")
        self._end += received

    def _drop(self, behind: int) -> None:
        """Forget what was decoded."""
        rest = self._buffer[behind : self._end].copy()
        self._buffer[: len(rest)] = rest
        self._at, self._end = 0, len(rest)


def _rows_in(buffer: Bytes, first: int) -> tuple[Places, int]:
    """Where the complete packets from `first` on start, and where the last of them ends.

    Short packets are guessed from the zeros in their headers. A guess counts only as far as each packet ends where the
    next one starts; the rest is walked.
    """
    zero = buffer[first:] == 0
    guessed = np.flatnonzero(zero[1:-1] & zero[2:])
    if len(guessed):
        guessed = guessed[np.diff(guessed, prepend=-2) > 1]  # a sequence number may be zero too
    ends = guessed + _HEADER + buffer[first + guessed]
    if len(guessed) and guessed[0] == 0:
        wrong = np.flatnonzero(ends[:-1] != guessed[1:])
        known = int(wrong[0]) + 1 if len(wrong) else len(guessed)
        known -= int(ends[known - 1] > len(zero))
    else:
        known = 0
    at = first + (int(ends[known - 1]) if known else 0)
    walked = []
    while len(buffer) - at >= _HEADER:
        length = _length_at(buffer.data, at)[0] & _LONGEST
        if length == _LONGEST:
            raise BadContract(
                "a row of 16 MiB or more cannot be read. Take the column that is so wide out of the contract."
            )
        if at + _HEADER + length > len(buffer):
            break
        walked.append(at)
        at += _HEADER + length
    return np.concatenate([first + guessed[:known], np.array(walked, np.int64)]), at


def _cells(buffer: Bytes, rows: Places, number: int) -> list[pa.Array]:
    """The columns of these rows, each copied out of the buffer, in which a row ends where the next one starts.

    What a cell says of its length is believed only within its row, which is to end with its last cell.
    """
    ends = np.append(rows, len(buffer))[1:]
    if len(rows) <= _FEW:
        whole = zip(rows + _HEADER, ends, strict=True)
        cells = [_cells_of_a_row(buffer[begin:end].tobytes(), number) for begin, end in whole]
        return [pa.array([row[i] for row in cells], pa.binary()) for i in range(number)]
    data, at, columns = pa.py_buffer(buffer), rows + _HEADER, []
    # Cells and what lies between them alternate; every second value is one of ours, and Arrow copies just those.
    every_second = np.arange(0, 2 * len(rows), 2, dtype=np.int32)
    for column in range(number):
        begin, end, missing = _extents(buffer, at)
        if (end != ends if column == number - 1 else end >= ends).any():
            raise Garbled
        offsets = np.empty(2 * len(rows), np.int32)
        offsets[0::2], offsets[1::2] = begin, end
        interleaved = pa.Array.from_buffers(pa.binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), data])
        columns.append(interleaved.take(pa.array(every_second, mask=missing)))
        at = end
    return columns


def _extents(buffer: Bytes, at: Places) -> tuple[Places, Places, npt.NDArray[np.bool_] | None]:
    """Where the cells at these places begin and end, and which are null."""
    if at[-1] >= len(buffer):  # the last row has no bytes
        raise Garbled
    first = buffer[at]
    begin = at + 1
    if (longest := first.max()) < _NULL:
        return begin, begin + first, None
    if longest > _THREE:
        raise Garbled
    length = first.astype(np.int64)
    missing = first == _NULL
    length[missing] = 0
    for marker, size in ((_TWO, 2), (_THREE, 3)):
        [long] = np.nonzero(first == marker)
        if len(long) and begin[long[-1]] + size > len(buffer):
            raise Garbled
        digits = [buffer[begin[long] + i].astype(np.int64) << (8 * i) for i in range(size)]
        length[long] = np.sum(digits, axis=0)
        begin[long] += size
    return begin, begin + length, missing


def _cells_of_a_row(row: bytes, number: int) -> Sequence[bytes | None]:
    cells: list[Any] = []
    at = 0
    for _ in range(number):
        length = row[at] if at < len(row) else _ERROR
        at += 1
        if length == _NULL:
            cells.append(None)
            continue
        if length > _THREE:
            raise Garbled
        if length > _NULL:
            size = length - _TWO + 2
            length = int.from_bytes(row[at : at + size], "little")
            at += size
        cells.append(row[at : at + length])
        at += length
    if at != len(row):
        raise Garbled
    return cells
