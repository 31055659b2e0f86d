"""A hash table of distinct keys in flat arrays: find, add and remove whole columns of keys at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pipeline.joins.parts import kernels
from pipeline.joins.parts.keycodes import Codes, picked

Slots = npt.NDArray[np.int32]

ABSENT = -1  # in what `find` returns
_REFUSED = -2  # in what `add` returns


class KeyIndex:
    """
    Idea
        Buckets with chains, three buckets for two keys. A key has a slot for as long as it is here, by which others
        know it; a slot that is free is the next one's.

    Memory
        capacity * (8 * words + 11): code, chain, flag, buckets. It grows with the capacity, key by key.

    Example
        >>> index = KeyIndex(capacity=3, words=1)
        >>> slots = index.add(np.array([[7], [9], [7]], np.uint64))
        >>> slots.tolist(), index.find(np.array([[9], [8]], np.uint64)).tolist()
        ([0, 1, 0], [1, -1])
        >>> index.remove(slots[1:2])
        >>> index.find(np.array([[9], [7]], np.uint64)).tolist(), len(index)
        ([-1, 0], 1)
    """

    def __init__(self, capacity: int, words: int) -> None:
        self.capacity = capacity
        self.codes: Codes = np.zeros((max(1, capacity), words), np.uint64)
        self._first = np.full(_buckets(capacity), ABSENT, np.int32)  # of a bucket's chain
        self._after = np.empty(capacity, np.int32)  # a slot, in its chain or among the free ones
        self._used = np.zeros(capacity, np.bool_)
        self._free = np.zeros(2, np.int32)  # the first free slot, and how many there are
        self.clear()

    @staticmethod
    def bytes_for(capacity: int, words: int) -> int:
        return max(1, capacity) * (8 * words + 5) + 4 * _buckets(capacity) + 8

    def __len__(self) -> int:
        """Distinct keys in the index."""
        return self.capacity - int(self._free[1])

    @property
    def nbytes(self) -> int:
        own = self.codes.nbytes + self._first.nbytes + self._after.nbytes + self._used.nbytes
        return own + self._free.nbytes

    @property
    def slots(self) -> Slots:
        """All slots in use."""
        return np.flatnonzero(self._used).astype(np.int32)

    def codes_of(self, slots: Slots) -> Codes:
        """The keys of these slots."""
        return picked(self.codes, slots)

    def find(self, codes: Codes) -> Slots:
        """The slot of each key, or ABSENT."""
        slots: Slots = kernels.find(codes, self.codes, self._first, self._after)
        return slots

    def add(self, codes: Codes) -> Slots:
        """The slot of each key, a new one for those not yet known. There must be room for all that are new."""
        room = int(self._free[1])
        slots: Slots = kernels.add(codes, self.codes, self._first, self._after, self._used, self._free)
        if not self._free[1] and (slots == _REFUSED).any():
            new = room + len(np.unique(codes[slots == _REFUSED], axis=0))
            raise OverflowError(f"{new} new keys, but room for {room} of {self.capacity}")
        return slots

    def remove(self, slots: Slots) -> None:
        """Forget these (distinct) slots' keys."""
        kernels.remove(slots, self.codes, self._first, self._after, self._used, self._free)

    def clear(self) -> None:
        """Forget all."""
        self._first[:] = ABSENT
        self._used[:] = False
        self._after[:] = np.arange(1, self.capacity + 1, dtype=np.int32)
        self._after[self.capacity - 1 :] = ABSENT
        self._free[:] = (0 if self.capacity else ABSENT), self.capacity

    def check(self) -> None:
        """Assert every invariant."""
        used = self.slots
        # Every key is found where it was put.
        assert np.array_equal(self.find(self.codes[used]), used)
        assert len(used) == len(self)
        # A slot is in use or free, never both.
        free = kernels.chain(int(self._free[0]), self._after)
        assert len(free) == self._free[1]
        either = self._used[: self.capacity].copy()
        either[free] = True
        assert either.all()
        assert len(used) + len(free) == self.capacity
        # Every key is in one chain, once.
        assert np.array_equal(np.sort(kernels.every_chain(self._first, self._after)[0]), used)


def _buckets(capacity: int) -> int:
    return max(1, capacity + capacity // 2)
