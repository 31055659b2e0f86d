"""The stream buffer of the papers: sales lie there until an iteration copies them into H and Q."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pipeline.joins.parts.keycodes import Codes

Positions = npt.NDArray[np.int64]


class StreamBuffer:
    """
    Idea
        Arrays of w sales that are filled from the front, and emptied at once.

    Memory
        w * (8 + 8 * words).

    Example
        >>> buffer = StreamBuffer(capacity=3, words=1)
        >>> buffer.admit(np.array([4, 5]), np.array([[7], [9]], np.uint64))
        >>> positions, codes = buffer.taken()
        >>> positions.tolist(), codes.tolist(), buffer.taken()[0].tolist()
        ([4, 5], [[7], [9]], [])
    """

    def __init__(self, capacity: int, words: int) -> None:
        self._positions: Positions = np.zeros(capacity, np.int64)
        self._codes: Codes = np.zeros((capacity, words), np.uint64)
        self._used = 0

    def admit(self, positions: Positions, codes: Codes) -> None:
        """Copy these behind those that are here; there must be room."""
        end = self._used + len(positions)
        self._positions[self._used : end], self._codes[self._used : end] = positions, codes
        self._used = end

    def taken(self) -> tuple[Positions, Codes]:
        """All sales, which are here no longer: good until the next ones come."""
        used, self._used = self._used, 0
        return self._positions[:used], self._codes[:used]

    @property
    def nbytes(self) -> int:
        return self._positions.nbytes + self._codes.nbytes
