"""Which waiting keys are asked for next: all in turn, none twice at a time."""

from __future__ import annotations

import numpy as np

from pipeline.joins.parts.keyindex import KeyIndex, Slots

ASKED = 1  # byte of a key


class Rounds:
    """
    Idea
        Slots are taken in their order, from where the last question ended, and round again. Would each question begin
        at the first slot, the last keys would wait for ever while others come, and gather sales.

    Memory
        ASKED, a byte, for each key.

    Example
        >>> index = KeyIndex(capacity=3, words=1)
        >>> slots, rounds = index.add(np.array([[7], [9], [8]], np.uint64)), Rounds(index)
        >>> asked = rounds.take(2)
        >>> asked.tolist(), rounds.waiting().tolist()
        ([0, 1], [2])
        >>> rounds.answered(asked)
        >>> rounds.waiting().tolist()
        [2, 0, 1]
    """

    def __init__(self, index: KeyIndex) -> None:
        self._index = index
        self._asked = np.zeros(index.capacity, np.bool_)  # slots whose answer is on its way
        self._next = 0  # slot after the last that was asked for

    @property
    def nbytes(self) -> int:
        return self._asked.nbytes

    def waiting(self) -> Slots:
        """The keys that are not being asked for."""
        slots = self._index.slots
        slots = slots[~self._asked[slots]]
        at = np.searchsorted(slots, self._next)
        return np.concatenate([slots[at:], slots[:at]])

    def take(self, count: int) -> Slots:
        """The next of them."""
        taken = self.waiting()[:count]
        self._asked[taken] = True
        self._next = int(taken[-1]) + 1
        return taken

    def answered(self, slots: Slots) -> None:
        self._asked[slots] = False
