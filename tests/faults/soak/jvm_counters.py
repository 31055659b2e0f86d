"""What a JVM counts of itself, in the file that it keeps for `jstat`: nothing is asked of it, nothing is collected."""

from __future__ import annotations

import getpass
import struct
from pathlib import Path

_ORDERS = {0: ">", 1: "<"}
_LONG = ord("J")


def counters(pid: int) -> dict[str, int]:
    """All its numbers by name; none if it keeps no such file, or has just ended."""
    # HotSpot keeps it there wherever java.io.tmpdir is.
    try:
        return numbers(Path(f"/tmp/hsperfdata_{getpass.getuser()}/{pid}").read_bytes())
    except (OSError, struct.error, KeyError):
        return {}


def numbers(kept: bytes) -> dict[str, int]:
    """A byte for the order of bytes, where the entries begin, how many there are; each entry has its length, where its
    name is, the length of a vector (0: one number), its type, and where its value is. So it is since Java 5."""
    order = _ORDERS[kept[4]]
    place, many = struct.unpack_from(f"{order}ii", kept, 24)
    found = {}
    for _ in range(many):
        length, name, vector, kind, *_, value = struct.unpack_from(f"{order}iiiBBBBi", kept, place)
        if kind == _LONG and not vector:
            label = kept[place + name : kept.index(b"\0", place + name)].decode()
            [found[label]] = struct.unpack_from(f"{order}q", kept, place + value)
        place += length
    return found
