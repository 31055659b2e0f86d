"""The first rows of R by its index, kept in memory: the non-swappable part of x-hybridjoin-kais2013."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from pipeline.joins.parts.kept import KeptRows, index_of
from pipeline.joins.parts.keycodes import Codes, KeyCoder, picked
from pipeline.joins.parts.keyindex import ABSENT
from pipeline.master.port import Master


class FirstPart(KeptRows):
    """
    Idea
        Read once, in one piece, and again when it has become too old. Rows probe the sales that wait, not the other way
        round: so there is no index on the rows, and who probes passes over all of them.

    Memory
        The rows' own bytes, and a code a row, together at most `row_bytes` a row: of wider ones fewer are kept.

    Example
        >>> from pipeline.master.memory import MemoryMaster
        >>> R = MemoryMaster.of({3: 30, 5: 50, 7: 70})
        >>> first = FirstPart(R, KeyCoder(pa.int64(), 8), rows=2, row_bytes=64, life=60, clock=lambda: 0.0)
        >>> first.refresh()
        >>> first.rows["key"].to_pylist(), len(first)
        ([3, 5], 2)
        >>> first.forget(np.array([[3]], np.uint64))
        >>> first.rows["key"].to_pylist(), first.codes.tolist()
        ([5], [[5]])
    """

    def __init__(
        self, master: Master, coder: KeyCoder, rows: int, row_bytes: float, life: float, clock: Callable[[], float]
    ) -> None:
        self.capacity = rows if life > 0 else 0
        self.rows: pa.Table = master.schema.empty_table()
        self.codes: Codes = np.empty((0, coder.words), np.uint64)
        self.asked_at = -np.inf
        self._master, self._coder, self._life, self._clock = master, coder, life, clock
        self._most_bytes = rows * row_bytes

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def nbytes(self) -> int:
        return int(self.rows.nbytes) + self.codes.nbytes

    def refresh(self) -> None:
        """Read it, if that was not done yet, or too long ago."""
        now = self._clock()
        if not self.capacity or now - self.asked_at < self._life:
            return
        self._keep(self.rows.slice(0, 0))
        rows, self.asked_at = self._master.page(None, None, self.capacity), now
        a_row = rows.nbytes / max(1, len(rows)) + 8 * self._coder.words
        if len(rows) * a_row > self._most_bytes:
            rows = rows.take(pa.array(np.arange(int(self._most_bytes / a_row)))).combine_chunks()
        self._keep(rows)

    def forget(self, codes: Codes) -> None:
        stays = index_of(codes).find(self.codes) == ABSENT
        if not stays.all():
            self.rows = self.rows.filter(pa.array(stays)).combine_chunks()
            self.codes = picked(self.codes, np.flatnonzero(stays))

    def clear(self) -> None:
        """It is read again before it is needed."""
        self._keep(self.rows.slice(0, 0))
        self.asked_at = -np.inf

    def check(self) -> None:
        """Assert every invariant."""
        # Every row is known by its key's code.
        assert np.array_equal(self.codes, self._codes(self.rows))
        # No more rows are kept than there is room for.
        assert len(self.rows) <= self.capacity

    def _keep(self, rows: pa.Table) -> None:
        self.rows, self.codes = rows, self._codes(rows)

    def _codes(self, rows: pa.Table) -> Codes:
        return self._coder.encode(rows["key"].combine_chunks(), remember=False)
