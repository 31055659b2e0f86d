"""The scan of R that never ends, and the queue Q of the papers: which sales have met all of R."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import pyarrow as pa

from pipeline.master.port import Master, Scan, UnderWay

SEGMENT_BYTES = 150  # a slot of Q, beside the scan's position, which is as long as a key or two


def slot_bytes(words: int) -> int:
    """A slot of Q, if a key's code has so many words."""
    return SEGMENT_BYTES + 2 * 8 * words


class _Segment(NamedTuple):
    """Sales that came in together."""

    last: int  # position of the last of these sales
    start: bytes | None  # where the scan stood
    cycle: int  # which cycle it was


class CyclicScan:
    """
    Idea
        A segment of sales has met all of R when the scan stands again where it stood at their admission, one cycle
        later. No read goes beyond the start of the oldest segment; so each meets all of R exactly once, also when R
        grows or shrinks meanwhile. R's end costs a read that finds it.

        With `ahead` the next read is asked for as soon as its place is known, and the server works on it while the
        rows of this one are matched. A sale that comes in meanwhile may have missed a row on its way: its cycle begins
        behind it.

    Memory
        slot_bytes() a segment. The rows of a read are the caller's.

    Example
        >>> from pipeline.master.memory import MemoryMaster
        >>> scan = CyclicScan(MemoryMaster.of({b"ale": 1, b"bun": 2, b"cod": 3}), rows=2, slots=2)
        >>> scan.enqueue(7)
        >>> scan.read()["surrogate_key"].to_pylist(), scan.complete()
        ([1, 2], [])
        >>> scan.read()["surrogate_key"].to_pylist(), scan.complete(), scan.size
        ([3], [7], 3)
    """

    def __init__(self, master: Master, rows: int, slots: int, apart: int = 1, ahead: bool = False) -> None:
        """`apart`: reads between two segments. Spent on a cycle's first reads, few slots would leave none for all the
        others."""
        self.rows, self.slots = rows, slots
        self.size: int | None = None  # of R, counted in the last whole cycle
        self.met_by_newest = 0  # rows read since the newest segment came in
        self._master = master
        self._apart, self._ahead = apart, ahead
        self._under_way: UnderWay[Scan] | None = None
        self._late: int | None = None  # position of the last sale that came in while a read was under way
        self._segments: deque[_Segment] = deque()  # the oldest first
        self._position: bytes | None = None  # survives micro-batches
        self._cycle = 0
        self._counted = 0  # rows of this cycle
        self._reads_since = 0  # the newest segment came in

    @property
    def takes_segment(self) -> bool:
        """Whether there is a slot, or the oldest segment may leave its own, and the time for it has come."""
        if not self._segments:
            return True
        free = len(self._segments) < self.slots or self._is_complete(self._segments[0])
        return free and self._reads_since >= self._apart

    def enqueue(self, last: int) -> None:
        """All sales up to this position that are in no segment yet will have met R after one cycle from here."""
        if self._under_way is not None:
            self._late = last
            return
        self._segments.append(_Segment(last, self._position, self._cycle))
        self._reads_since = self.met_by_newest = 0

    def read(self) -> pa.Table:
        """The next rows, but none that the oldest segment has met."""
        scan = (self._under_way or self._begin()).answer()
        self._under_way = None
        self._position = scan.position
        self._reads_since += 1
        self.met_by_newest += len(scan.rows)
        self._counted += len(scan.rows)
        if scan.position is None:
            self.size, self._counted = self._counted, 0
            self._cycle += 1
        late, self._late = self._late, None
        if late is not None:
            self.enqueue(late)
        if self._ahead and self._segments and not self._is_complete(self._segments[-1]):
            self._under_way = self._begin()
        return scan.rows

    def _begin(self) -> UnderWay[Scan]:
        waiting = (segment for segment in self._segments if not self._is_complete(segment))
        oldest = next(waiting, None)
        until = oldest.start if oldest and oldest.cycle < self._cycle else None
        return self._master.begin_scan(self._position, self.rows, until)

    def _is_complete(self, segment: _Segment) -> bool:
        return segment.cycle < self._cycle and segment.start == self._position

    def complete(self) -> list[int]:
        """The segments that have met all of R leave Q, each told by its last sale's position."""
        lasts = []
        while self._segments and self._is_complete(self._segments[0]):
            lasts.append(self._segments.popleft().last)
        return lasts

    def clear(self) -> None:
        """No sale waits any more; the scan stays where it is."""
        self._segments.clear()
        if self._under_way is not None:
            self._under_way.abandon()
            self._under_way = None

    @property
    def nbytes(self) -> int:
        return sum(SEGMENT_BYTES + len(segment.start or b"") for segment in self._segments)

    def check(self) -> None:
        """Assert every invariant."""
        # Q has a slot for every segment.
        assert len(self._segments) <= self.slots
        # The oldest segment is the first that the scan comes round to.
        assert all(self._cycle - 1 <= segment.cycle <= self._cycle for segment in self._segments)
