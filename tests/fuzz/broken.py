"""A target that is broken on purpose: each of its inputs is harmless, reads where no memory is, or is never through."""

from __future__ import annotations

import ctypes
import random
import time

FATAL, ENDLESS = b"fatal", b"endless"


def made(draw: random.Random) -> bytes:
    return draw.choice([b"harmless", b"harmless", FATAL, ENDLESS])


def tried(data: bytes) -> bool:
    if data == FATAL:
        ctypes.string_at(0)
    while data == ENDLESS:
        time.sleep(0.01)
    return True
