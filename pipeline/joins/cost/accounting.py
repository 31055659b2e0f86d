"""What the memory of a join is taken to hold: what its structures really take, or what a paper's equations count."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pipeline.joins.parts import budget


@dataclass(frozen=True)
class Accounting:
    """As measured: each model says what its structures take, and that is what counts.

    The only one for a budget that is real, and so the only one that a job knows: no setting names another.
    """

    holds: ClassVar[bool] = True  # no join ever takes more than its memory

    def to_split(self, memory: int) -> int:
        """Bytes of a join's memory that its algorithm may split."""
        return budget.to_split(memory)

    def memory_for(self, needed: float) -> int:
        """The least memory of which a join may split so many bytes."""
        return budget.memory_for(needed)

    def longest_offer(self, memory: int, words: int) -> int:
        """Sales that a join looks at together."""
        return budget.longest_offer(memory, words)

    def sales(self, number: float, taken: float, arriving: float = 0.0) -> float:
        """Bytes of sales that wait; `arriving`: how many of them came in for the same read."""
        return taken

    def rows(self, number: float, v_R: float, taken: float) -> float:
        """Bytes of rows in a disk buffer, or in pages that stay."""
        return taken

    def cached(self, number: float, v_R: float, taken: float) -> float:
        """Bytes of rows in a front stage's cache."""
        return taken

    def beside(self, taken: float) -> float:
        """Bytes of what no paper counts: directories of R, slots of Q, counters."""
        return taken


AS_MEASURED = Accounting()


@dataclass(frozen=True)
class AsPublished(Accounting):
    """As a paper's equations count, so that its "50 MB" hold as many sales and rows here as there.

    What our structures take is more, two or three times so where a paper counts 32 bytes a sale: the join is not held
    to M, and its process needs that much. For experiments only; a budget that must hold is `AS_MEASURED`. Joins that no
    paper has (auto) count alike; partitioned and ssij, whose papers are not ours, count as measured.

    >>> counted = AsPublished(v_S=20, f=4.8, pointer=4, copied=True)
    >>> counted.sales(1_000, taken=71_000, arriving=10), counted.rows(5, 120.0, taken=1_360), counted.to_split(9_000)
    (100200.0, 600.0, 9000)
    """

    v_S: float  # bytes of a sale
    f: float = 1.0  # fudge factor: what a sale takes in the hash table, as a multiple of v_S
    pointer: float = 0.0  # of a pointer in Q, or of a node with its join attribute's value
    copied: bool = False  # the w sales of an iteration take v_S each in the stream buffer, too
    stream_buffer: int = 0  # bytes that are set aside for it, if any size does
    slot: float = 8.0  # of the frequency recorder, for a row in the cache

    holds: ClassVar[bool] = False

    def to_split(self, memory: int) -> int:
        return max(0, memory - self.stream_buffer)

    def memory_for(self, needed: float) -> int:
        return -int(-needed // 1) + self.stream_buffer

    def longest_offer(self, memory: int, words: int) -> int:
        return budget.LONGEST_OFFER

    def sales(self, number: float, taken: float, arriving: float = 0.0) -> float:
        return number * (self.f * self.v_S + self.pointer) + arriving * self.v_S * self.copied

    def rows(self, number: float, v_R: float, taken: float) -> float:
        return number * v_R

    def cached(self, number: float, v_R: float, taken: float) -> float:
        return number * (v_R + self.slot)

    def beside(self, taken: float) -> float:
        return 0.0
