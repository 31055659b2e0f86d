"""Lets kafka-python read compressed messages: it looks for three packages we do not have, pyarrow has what they do."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa
from kafka import codec
from kafka.record import default_records


def install() -> None:
    """Supply the codecs that kafka-python found no package for. A second time changes nothing."""
    if not codec.has_snappy():
        codec.snappy = SimpleNamespace(decompress=_snappy)
    if not codec.has_lz4():
        codec.lz4 = SimpleNamespace()  # looked at only for being there
        default_records.lz4_decode = lambda data: _stream(data, "lz4")
    if not codec.has_zstd():
        codec.zstd = SimpleNamespace()
        default_records.zstd_decode = lambda data: _stream(data, "zstd")


def _stream(data: bytes, name: str) -> bytes:
    with pa.CompressedInputStream(pa.BufferReader(data), name) as stream:
        return bytes(stream.read())


def _snappy(block: bytes) -> bytes:
    """A raw block begins with the length of what it holds, seven bits a byte, the lowest first."""
    length = shift = 0
    for byte in block:
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    return bytes(pa.decompress(block, decompressed_size=length, codec="snappy", asbytes=True))
