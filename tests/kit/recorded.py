"""Answers of a MySQL server as bytes, and a socket from which they come."""

from __future__ import annotations

import struct
from collections.abc import Sequence

END = b"\xfe\0\0\x02\0"


class Recorded:
    """A socket from which a recorded answer comes in pieces of these sizes, over and over."""

    def __init__(self, answer: bytes, pieces: list[int]) -> None:
        self.answer, self.pieces, self.at, self.sent = answer, pieces, 0, b""

    def settimeout(self, seconds: float) -> None:
        assert seconds > 0

    def sendall(self, data: bytes) -> None:
        self.sent += data

    def recv_into(self, buffer: memoryview) -> int:
        received = self.recv(len(buffer))
        buffer[: len(received)] = received
        return len(received)

    def recv(self, most: int) -> bytes:
        size = min(self.pieces[0], most, len(self.answer) - self.at)
        self.pieces = self.pieces[1:] + self.pieces[:1]
        self.at += size
        return self.answer[self.at - size : self.at]


def packets(*payloads: bytes) -> bytes:
    return b"".join(
        struct.pack("<I", len(payload) | (number % 256) << 24) + payload for number, payload in enumerate(payloads, 1)
    )


def cell(value: bytes | None) -> bytes:
    if value is None:
        return b"\xfb"
    if len(value) < 251:
        return bytes([len(value)]) + value
    if len(value) < 1 << 16:
        return b"\xfc" + struct.pack("<H", len(value)) + value
    return b"\xfd" + struct.pack("<I", len(value))[:3] + value


def result(rows: Sequence[Sequence[bytes | None]], columns: int, last: bytes = END) -> bytes:
    head = [bytes([columns]), *[b"\x03def" + bytes(20)] * columns, END]
    return packets(*head, *(b"".join(map(cell, row)) for row in rows), last)
