"""SSIJ, the semi-streaming index join: collect, look up in blocks that are kept, read the block most wanted."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from pipeline.joins.algorithm import Positions, Served, Workplace
from pipeline.joins.cost import ssij as cost
from pipeline.joins.cost.question import Model
from pipeline.joins.cost.slots import pending_sales
from pipeline.joins.parts.keycodes import Codes, picked
from pipeline.joins.slots import SlotJoin

_HALF_LIFE = 4  # a block's utility is halved after so many times the sales that may wait


class SemiStreamingIndexJoin(SlotJoin):
    """
    Idea
        Three phases take turns. Pending: sales are collected until there are enough of them. Online: they are looked
        up in the blocks of R that are kept in memory; a sale not found there goes to the stream buffer. Join: while
        the stream buffer is above its own threshold, the block for which most of it waits is read and serves them. A
        utility counter for each block says which blocks stay in memory.

    Memory
        M = h_S * v_S + k * v_P + 2 d * v_R + h_R * v_R, for h_S sales, at most one in eight of them pending, a
        counter for each of k blocks, a block of d rows which may grow to twice that, and h_R rows of kept blocks.

    Departures from the paper
        We know the paper only by what x-hybridjoin-kais2013 and cmeshjoin-cikm2013 (section 2 of both) say of it.
        The thresholds, unclear there, are: one sale in eight pending, and a stream buffer with no room for as many
        more. A pause of the stream counts as its end until sales come again. A block's utility is the number of
        sales that wanted it, halved every 4 h_S sales. A sale waits at most 2 k steps, blocks are kept no longer than
        `max_staleness`, and a key that is not found in its block is asked for by name before it is called absent. With
        too little memory for a directory of blocks that can be read at once, all keys are.

    Example
        >>> import pyarrow as pa
        >>> from pipeline.joins import make
        >>> from pipeline.master.memory import MemoryMaster
        >>> R = MemoryMaster.of({b"ale": 1, b"bun": 2, b"cod": 3, b"dip": 4})
        >>> join = make("ssij", R, memory=64_000)
        >>> for _ in range(2):
        ...     taken = join.offer(np.arange(3), pa.array([b"bun", b"elk", b"bun"], pa.binary()))
        ...     while join.pending:
        ...         served = join.step(drain=True)
        >>> join.statistics.hits, join.statistics.misses, join.statistics.matched, join.statistics.unmatched
        (2, 4, 4, 2)

    Reference
        Bornea, Deligiannakis, Kotidis, Vassalos: Semi-Streamed Index Join for Near-Real Time Execution of ETL
        Transformations, 2011; not at hand, see above.
    """

    name: ClassVar[str] = "ssij"
    model: ClassVar[Model[Any]] = cost

    def __init__(self, workplace: Workplace) -> None:
        super().__init__(workplace)
        self._pending_limit = min(pending_sales(self.split.h_S), self.question.offer)
        self._collected: list[tuple[Positions, Codes]] = []

    # As described (no pseudocode is at hand):
    #    1  pending phase: collect sales until the threshold or the stream's end
    def admit(self, positions: Positions, codes: Codes) -> int:
        self._fed |= len(positions) > 0
        self._collected.append((positions.copy(), codes.copy()))
        return len(positions)

    #    3  join phase: if the stream buffer is above its threshold (or the stream
    #       ends), read the block with the most sales, join them                    -> _read
    #    4  keep the block if its utility is greater than another's                 -> _keep
    def _step(self, ends: bool) -> list[Served]:
        served = []
        if self._in_pending_phase and (ends or self._in_pending_phase >= self._pending_limit):
            served = self._look_up_online()
        if len(self._unproved):
            return served + self._prove()
        full = self._waiting.room < self._pending_limit
        page = self._page_to_read(ends or full, self._waiting.capacity + 1)
        return served if page is None else served + self._read(page)

    #    2  online phase: join those whose block is kept; the others to the buffer
    def _look_up_online(self) -> list[Served]:
        positions = np.concatenate([positions for positions, _ in self._collected])
        codes = np.concatenate([codes for _, codes in self._collected])
        self._collected = []
        self._cache.expire()
        pages, rows = self._cache.find(codes)
        found = pages >= 0
        self._worth *= 0.5 ** (len(positions) / (_HALF_LIFE * self._waiting.capacity))
        if not found.all():
            others = np.flatnonzero(~found)
            self._wait(positions[others], picked(codes, others))
        return self._from_cache(positions[found], pages[found], rows[found]) if found.any() else []

    def _note(self, pages: int | npt.NDArray[np.int32], sales: int | npt.NDArray[np.int64]) -> None:
        self._worth[pages] += sales

    @property
    def _in_pending_phase(self) -> int:
        return sum(len(positions) for positions, _ in self._collected)

    @property
    def room(self) -> int:
        collected = self._in_pending_phase
        return min(self._pending_limit - collected, super().room - collected)

    @property
    def pending(self) -> int:
        return super().pending + self._in_pending_phase

    def memory_used(self) -> dict[str, int]:
        collected = sum(positions.nbytes + codes.nbytes for positions, codes in self._collected)
        return super().memory_used() | {"pending phase": collected}
