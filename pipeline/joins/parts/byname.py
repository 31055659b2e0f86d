"""Waiting keys that were not found where they should lie, and are asked for by name: each once, in turn."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pipeline.joins.parts.keyindex import Slots

KEY_BYTES = 4 + 1  # its place among those to be asked for, and that it is one of them


class ByName:
    """
    Memory
        KEY_BYTES a key that may wait.

    Example
        >>> named = ByName(capacity=8)
        >>> named.add(np.array([5, 2], np.int32))
        >>> named.add(np.array([2, 7], np.int32))
        >>> named.take(2).tolist(), len(named), named.has(np.array([2, 3])).tolist()
        ([5, 2], 1, [True, False])
        >>> named.drop(np.array([2, 7], np.int32))
        >>> len(named), named.has(np.array([2, 5])).tolist()
        (0, [False, True])
    """

    def __init__(self, capacity: int) -> None:
        self._is_one = np.zeros(capacity, np.bool_)
        self._queue: Slots = np.empty(0, np.int32)

    def __len__(self) -> int:
        """Keys that are still to be asked for."""
        return len(self._queue)

    @property
    def nbytes(self) -> int:
        return self._is_one.nbytes + self._queue.nbytes

    def has(self, slots: npt.NDArray[np.integer]) -> npt.NDArray[np.bool_]:
        """Which of these are asked for by name: to be asked for, or on the way."""
        marked: npt.NDArray[np.bool_] = self._is_one[slots]
        return marked

    def add(self, slots: Slots) -> None:
        """These (distinct) keys, if they are not known."""
        new = slots[~self._is_one[slots]]
        self._is_one[new] = True
        self._queue = np.concatenate([self._queue, new])

    def take(self, most: int) -> Slots:
        """The next ones."""
        taken, self._queue = self._queue[:most], self._queue[most:]
        return taken

    def put_back(self, slots: Slots) -> None:
        """Of these, the ones that were taken and got no answer."""
        self._queue = np.concatenate([slots[self._is_one[slots]], self._queue])

    def drop(self, slots: Slots) -> None:
        """These keys wait no more."""
        if self._is_one[slots].any():
            self._is_one[slots] = False
            self._queue = self._queue[self._is_one[self._queue]]

    def check(self, waiting: Slots, under_way: Slots) -> None:
        """Assert every invariant."""
        # No key is to be asked for that no sale waits for, nor twice; each other one that is marked is on its way.
        assert np.isin(self._queue, waiting).all()
        marked = np.flatnonzero(self._is_one)
        assert len(np.unique(self._queue)) == len(self._queue)
        assert np.array_equal(np.setdiff1d(marked, self._queue), np.intersect1d(under_way, marked))
