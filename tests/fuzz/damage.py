"""What becomes of bytes on their way, and what somebody makes of them who means harm."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

_LENGTHS = [0, 1, 2, 7, 8, 0x7F, 0x80, 0xFA, 0xFB, 0xFC, 0xFD, 0xFE, 0xFF, 0x100, 0x7FFF, 0xFFFF, 0x10000, 0xFFFFFE]
_LENGTHS += [0xFFFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]
_MOST = 8_000  # bytes: what is short is tried often


def damaged(draw: random.Random, data: bytes, other: Callable[[], bytes], words: Sequence[bytes] = ()) -> bytes:
    """The same with a few wounds: bytes lost, doubled, changed; a number that lies; pieces of another one; cut off."""
    for _ in range(draw.choice([0, 1, 1, 1, 2, 3, 6])):
        data = _wounded(draw, data, other, words)
    return data[:_MOST]


def _wounded(draw: random.Random, data: bytes, other: Callable[[], bytes], words: Sequence[bytes]) -> bytes:
    at = draw.randrange(len(data) + 1)
    to = min(len(data), at + draw.choice([0, 1, 1, 2, 3, 4, 8, 40, 200]))
    kind = draw.randrange(9)
    if kind == 0:
        return data[:at] + bytes([draw.choice([0, 1, 0x7F, 0x80, 0xFF, draw.randrange(256)])]) + data[at + 1 :]
    if kind == 1:
        size, order = draw.choice([1, 2, 3, 4, 8]), draw.choice(["little", "big"])
        number = (draw.choice(_LENGTHS) + draw.choice([0, 0, -1, 1])) % (1 << 8 * size)
        return data[:at] + number.to_bytes(size, order) + data[at + size :]  # type: ignore[arg-type]
    if kind == 2:
        return data[:at] + data[to:]
    if kind == 3:
        return data[:to] + data[at:]
    if kind == 4:
        return data[:at] + draw.randbytes(draw.choice([1, 2, 5, 30])) + data[at:]
    if kind == 5:
        return data[:at] + (draw.choice(words) if words else b"") + data[draw.choice([at, to]) :]
    if kind == 6:
        more = other()
        return data[:at] + more[draw.randrange(len(more) + 1) :]
    if kind == 7 and at < len(data):
        return data[:at] + bytes([data[at] ^ 1 << draw.randrange(8)]) + data[at + 1 :]
    return data[:at]
