"""What a join counts."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.counters import Counters


@dataclass
class JoinStatistics(Counters):
    """What a join did since it was made. All counts are of sales unless said otherwise."""

    offered: int = 0
    null_keys: int = 0
    matched: int = 0  # pairs of sale and master row
    unmatched: int = 0
    overlapping: int = 0  # joined as of their time, when several master rows of their key were valid
    ruled_out: int = 0  # known to have no row, for the filter of keys does not have theirs
    hits: int = 0  # served from rows, or absences, that were in memory before
    misses: int = 0  # had to wait for the master
    probed: int = 0  # master rows that stay in memory, each time that one is looked up among the waiting sales
    evicted: int = 0  # master rows thrown out of memory
    forgotten: int = 0  # master rows and absences in memory that were said to have changed
    steps: int = 0
    looked_up: int = 0  # windows that auto served by look-ups
    by_pages: int = 0  # by pages and look-ups
    by_scan: int = 0  # by the scan

    @property
    def served(self) -> int:
        """Sales served, whatever came of them; a sale with many master rows counts with each."""
        return self.matched + self.unmatched
