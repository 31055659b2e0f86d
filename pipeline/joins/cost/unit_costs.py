"""What reads of the master and a join's own steps take, in seconds: measured by `millrace calibrate`, or guessed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from pipeline.joins.cost.lookups import Blocks, Touched

_LEARN = 0.3  # weight of the newest measurement of a unit cost


@dataclass(frozen=True)
class Line:
    """The seconds of a request that grows with what is asked for.

    >>> Line(0.001, 0.000002)(500)
    0.002
    """

    request: float
    item: float

    def __call__(self, items: float) -> float:
        return self.request + self.item * items


@dataclass(frozen=True)
class UnitCosts:
    """Seconds, on one worker. The defaults are those of a laptop-sized machine with the database beside it;
    `millrace calibrate` measures the user's own."""

    lookup: Line = Line(5.0e-4, 5.0e-6)  # c_IO of n keys by name, a query after the other
    overlapped: Line = Line(1.0e-3, 3.5e-6)  # the same in auto's flow over several connections, its own work included
    page: Line = Line(8.0e-4, 1.0e-6)  # c_IO of a page of d rows by the index
    scan: Line = Line(8.0e-4, 0.5e-6)  # c_IO of b rows of a cyclic scan
    borders: float = 0.3e-6  # a row of R, when the first keys of its pages are read
    loop: float = 8.0e-4  # one iteration of a join's outer loop, whatever it does: the calls of array operations
    c_K: float = 5.0e-7  # a join's own part of asking for a key by name: writing it down, and finding its sales
    c_F: float = 1.0e-7  # probing the front stage's cache with a sale
    c_P: float = 3.0e-4  # one offer, however few sales: a small memory takes them in small pieces
    c_S: float = 0.5e-7  # reading a sale from the stream: its key's code
    c_A: float = 0.5e-7  # adding a sale to H and Q
    c_E: float = 0.5e-7  # removing a sale from H and Q
    c_H: float = 1.0e-7  # probing H with a row, the row's code included
    c_O: float = 1.0e-7  # a result
    blocks: Blocks | None = None  # None: look-ups find R in memory, and each key costs the same
    loops: tuple[tuple[str, float], ...] = ()  # `loop` of single joins, where it was measured

    @property
    def beside(self) -> float:
        """A key that is asked for by name with the page on which it lies."""
        return 0.0 if self.blocks else self.lookup.item

    def by_name(self, keys: float, blocks: Touched) -> float:
        """Keys that are asked for in queries of others; they lie in so many blocks."""
        if self.blocks is None:
            return keys * self.lookup.item
        return blocks.runs * self.blocks.seek + blocks.blocks * self.blocks.transfer

    def of(self, join: str) -> UnitCosts:
        """These costs with the `loop` of this join."""
        return replace(self, loop=dict(self.loops).get(join, self.loop))

    def learned(self, way: str, more: float) -> UnitCosts:
        """These costs, with an item of this way moved towards so many seconds more.

        >>> UnitCosts(scan=Line(0.0, 2e-6)).learned("scan", 1e-6).scan.item
        2.3e-06
        """
        line: Line = getattr(self, way)
        item = line.item + _LEARN * max(more, line.item / 10 - line.item)
        changed: dict[str, Any] = {way: replace(line, item=item)}
        return replace(self, **changed)
