"""The records of a compressed batch, as they were before. What they come to is bounded: it is outside data."""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

MOST = 512 << 20  # bytes a batch may come to
_STEP = 1 << 20
_XERIAL = b"\x82SNAPPY\x00"  # Java's clients cut what they compress by Snappy into pieces behind this; others do not
_XERIAL_HEADER = 16  # with two version numbers

Bytes = npt.NDArray[np.uint8]


class NotDecompressed(Exception):
    """The bytes are not what they say to be, or come to too much."""


def decompressed(codec: int, data: memoryview) -> Bytes:
    if codec not in _WAYS:
        raise NotDecompressed(f"compression {codec} is not known")
    try:
        return np.frombuffer(_WAYS[codec](data), np.uint8)
    except (pa.ArrowException, OSError, ValueError, struct.error, IndexError) as error:
        raise NotDecompressed(str(error) or type(error).__name__) from error


def _streamed(codec: str) -> Callable[[memoryview], bytes]:
    def decompress(data: memoryview) -> bytes:
        pieces, size = [], 0
        with pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(data)), codec) as stream:
            while piece := stream.read(_STEP):
                size += len(piece)
                _refuse(size)
                pieces.append(piece)
        return b"".join(pieces)

    return decompress


def _snappy(data: memoryview) -> bytes:
    if bytes(data[: len(_XERIAL)]) != _XERIAL:
        return _snappy_piece(data, 0)
    pieces, size, at = [], 0, _XERIAL_HEADER
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        at += 4
        if length > len(data) - at:
            raise NotDecompressed("a piece is cut off")
        pieces.append(_snappy_piece(data[at : at + length], size))
        size += len(pieces[-1])
        at += length
    return b"".join(pieces)


def _snappy_piece(data: memoryview, before: int) -> bytes:
    """Its first bytes say how long it was."""
    size = shift = 0
    for byte in data[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    _refuse(before + size)
    return bytes(pa.Codec("snappy").decompress(pa.py_buffer(data), size, asbytes=True)) if size else b""


def _refuse(size: int) -> None:
    if size > MOST:
        raise NotDecompressed(f"it comes to more than {MOST >> 20} MiB")


_WAYS = {1: _streamed("gzip"), 2: _snappy, 3: _streamed("lz4"), 4: _streamed("zstd")}
