"""Sales that a cache has served, and that have not come out yet."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.joins.parts.newcomers import NO_ROW

Numbers = npt.NDArray[np.int64]


@dataclass
class _Block:
    """Sales that were served together."""

    sales: Numbers
    first: Numbers  # of each: its first row, or NO_ROW
    many: Numbers | None  # of each: how many rows it comes out with; None: one
    rows: pa.Table
    out: int = 0  # pairs that have come out

    def __post_init__(self) -> None:
        self.ends = None if self.many is None else np.cumsum(np.maximum(self.many, 1))

    @property
    def pairs(self) -> int:
        """Still to come."""
        return len(self.sales) if self.ends is None else int(self.ends[-1]) - self.out

    @property
    def waiting(self) -> int:
        """Sales of which some are still to come."""
        return len(self.sales) - (0 if self.ends is None else int(np.searchsorted(self.ends, self.out, side="right")))

    def take(self, most: int) -> tuple[Numbers, Numbers, pa.Table]:
        if self.ends is None or self.many is None:
            return self.sales, self.first, self.rows
        pairs = np.arange(self.out, min(int(self.ends[-1]), self.out + most))
        self.out += len(pairs)
        sale = np.searchsorted(self.ends, pairs, side="right")
        row = self.first[sale] + pairs - (self.ends - np.maximum(self.many, 1))[sale]
        return self.sales[sale], np.where(self.first[sale] == NO_ROW, NO_ROW, row), self.rows


class Hits:
    """
    Idea
        Where a key has one row, all come out at once. Where it may have many, the pairs of a few sales may be more
        than the memory: then as many come out at a time as sales may come in.

    Memory
        For each sale its position, its first row's number, and the number of its rows; nothing for a pair.

    Example
        >>> hits = Hits(most=2)
        >>> hits.hold(np.array([5, 6]), np.array([0, -1]), np.array([3, 0]), pa.table({"key": [7, 7, 7]}))
        >>> [(sales.tolist(), rows.tolist()) for sales, rows, _ in hits.take()], hits.sales, hits.pairs
        ([([5, 5], [0, 1])], 2, 2)
        >>> [(sales.tolist(), rows.tolist()) for sales, rows, _ in hits.take()], hits.sales, hits.pairs
        ([([5, 6], [2, -1])], 0, 0)
    """

    def __init__(self, most: int) -> None:
        """`most`: pairs that come out at a time."""
        self._most = most
        self._blocks: deque[_Block] = deque()
        self.sales = self.pairs = 0  # held; and what is to come of them

    def hold(self, sales: Numbers, first: Numbers, many: Numbers | None, rows: pa.Table) -> None:
        self._blocks.append(_Block(sales, first, many, rows))
        self._count()

    def take(self) -> list[tuple[Numbers, Numbers, pa.Table]]:
        """The next sales, each with a row's number or NO_ROW, and the rows."""
        taken, room = [], self._most
        while self._blocks and room > 0:
            block = self._blocks[0]
            taken.append(block.take(room))
            if block.ends is not None:
                room -= len(taken[-1][0])
            if block.ends is None or not block.pairs:
                self._blocks.popleft()
        self._count()
        return taken

    def _count(self) -> None:
        self.sales = sum(block.waiting for block in self._blocks)
        self.pairs = sum(block.pairs for block in self._blocks)
