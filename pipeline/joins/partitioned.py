"""The partition-based join: each sale waits in the slot of its partition of R; a full slot reads its partition."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from pipeline.joins.algorithm import Positions, Served, Workplace
from pipeline.joins.cost import partitioned as cost
from pipeline.joins.cost.question import Model
from pipeline.joins.parts.keycodes import Codes, picked
from pipeline.joins.slots import SlotJoin


class PartitionedJoin(SlotJoin):
    """
    Idea
        R is cut into partitions by its index. A first level tries to join a sale as soon as it arrives, with rows of
        partitions read not long ago. The others wait, each in the slot of its partition. A partition is read when its
        slot has reached a threshold, or the fullest one when the waiting area is full: each read serves many sales.

    Memory
        M = h_S * v_S + k * v_P + 2 d * v_R + h_R * v_R, for h_S waiting sales in k slots, a partition of d rows which
        may grow to twice that, and h_R rows of the first level.

    Departures from the paper
        We know the paper only by what hybridjoin-2011 and x-hybridjoin-kais2013 (section 2 of both) say of it.
        The two levels of its hash table, partition and key, are one table of all rows kept; the partition that was
        used longest ago goes first. Its switch to an index nested loop join is left out: that is `inlj`.
        A sale waits at most 2 k steps, then its partition is read, full or not; the papers criticise that it may wait
        without bound. When no sales came since the last step, or no more will come, the fullest slot is read.
        A key that is not found in its partition is asked for by name before it is called absent. With too little
        memory for a directory of partitions that can be read at once, all keys are.

    Example
        >>> import pyarrow as pa
        >>> from pipeline.joins import make
        >>> from pipeline.master.memory import MemoryMaster
        >>> R = MemoryMaster.of({b"ale": 1, b"bun": 2, b"cod": 3, b"dip": 4})
        >>> join = make("partitioned", R, memory=64_000)
        >>> join.offer(np.arange(3), pa.array([b"bun", b"elk", b"bun"], pa.binary()))
        3
        >>> served = join.step(drain=True)
        >>> {sale: piece.rows["key"][row].as_py() if row >= 0 else None
        ...  for piece in served for sale, row in zip(piece.sales.tolist(), piece.match.tolist())}
        {2: b'bun', 0: b'bun', 1: None}

    Reference
        Chakraborty, Singh: A Partition-based Approach to Support Streaming Updates over Persistent Data in an Active
        Data Warehouse, 2009; not at hand, see above.
    """

    name: ClassVar[str] = "partitioned"
    model: ClassVar[Model[Any]] = cost

    def __init__(self, workplace: Workplace) -> None:
        super().__init__(workplace)
        self._ready: list[Served] = []  # joined on arrival

    # As described (no pseudocode is at hand), for the sales of one offer:
    #    1  join with the rows of the first level what finds its row there
    #    2  the others wait in the slots of their partitions
    def admit(self, positions: Positions, codes: Codes) -> int:
        self._fed |= len(positions) > 0
        self._cache.expire()
        pages, rows = self._cache.find(codes)
        found = pages >= 0
        if found.any():
            self._ready += self._from_cache(positions[found], pages[found], rows[found])
        if not found.all():
            others = np.flatnonzero(~found)
            self._wait(positions[others], picked(codes, others))
        return len(positions)

    #    3  when a slot reaches the threshold, or the waiting area is full:
    #    4    read the partition (of the fullest slot), serve its slot              -> _read
    #    5    its rows replace older ones on the first level                        -> _keep
    def _step(self, ends: bool) -> list[Served]:
        served, self._ready = self._ready, []
        if len(self._unproved):
            return served + self._prove()
        page = self._page_to_read(ends or not self._waiting.room, self.split.threshold)
        return served if page is None else served + self._read(page)

    def _note(self, pages: int | npt.NDArray[np.int32], sales: int | npt.NDArray[np.int64]) -> None:
        # The step of the last use; of pages used in the same step the one that served more sales counts as later.
        self._worth[pages] = self._steps + sales / (sales + 1)

    @property
    def room(self) -> int:
        # What is ready leaves first: that bounds it by one offer.
        return 0 if self._ready else super().room

    @property
    def pending(self) -> int:
        return super().pending + sum(len(piece.sales) for piece in self._ready)
