"""What the papers' equations charge for: reads of the disk, and what is done with a sale or a row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Disk:
    """c_I/O of so many bytes: a seek, and their transfer.

    The papers measure c_I/O and print no figure of it; of a page it is high in small buffers and flat in large ones.

    >>> round(Disk(seek=0.005, byte=1e-8)(1_000_000), 6)
    0.015
    """

    seek: float
    byte: float

    def __call__(self, size: float) -> float:
        return self.seek + self.byte * size


@dataclass(frozen=True)
class UnitCosts:
    """Seconds. The papers have these symbols in a table each, and a figure for none of them."""

    c_IO: Callable[[float], float]  # of so many bytes read at once
    c_E: float = 0.0  # removing a sale from H and Q
    c_S: float = 0.0  # reading a sale from the stream buffer
    c_A: float = 0.0  # adding a sale to H and Q
    c_H: float = 0.0  # probing H with a row
    c_O: float = 0.0  # a result

    @property
    def sale(self) -> float:
        """What a sale costs, its result included."""
        return self.c_E + self.c_S + self.c_A + self.c_O
