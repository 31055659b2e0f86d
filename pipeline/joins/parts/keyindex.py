"""A hash table of distinct keys in flat arrays: find, add and remove whole columns of keys at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pipeline.joins.parts.keycodes import Codes, hashes, picked, same

Slots = npt.NDArray[np.int32]

ABSENT = -1  # in what `find` returns
_EMPTY = -1  # in the table
_FEW = 48  # keys, for which another round costs more than it looks at
_MOST_PASSES = 0.4  # of the table's places, since it was built; then it is built anew


class KeyIndex:
    """
    Idea
        Open addressing with triangular steps. All keys of a call advance in step: each round looks at one place a
        key, and the few that met another key go on to the next round. Keys that are added together and want the same
        place write there all at once; the key found there afterwards has won, the others are compared with it.
        A place remembers whether a key was ever sent on from it: a search ends where none was, even if another key
        is there, so most keys that are not in the table are known by one look, and a removed key leaves no trace.

    Memory
        capacity * (8 * words + 4 + 4) for code, place and free list, and 5 bytes for each of the table's places, of
        which there are a power of two, at least twice the capacity.

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
        self._table = np.full(_places(capacity), _EMPTY, np.int32)
        self._passed = np.zeros(len(self._table), np.bool_)  # a key was sent on from this place
        self._mask = np.int64(len(self._table) - 1)
        self._shift = np.uint64(64 - max(1, int(len(self._table) - 1).bit_length()))
        self._place = np.full(capacity, ABSENT, np.int32)  # of a slot in the table
        self._free = np.arange(capacity - 1, -1, -1, dtype=np.int32)
        self._used = 0
        self._passes = 0  # keys sent on since the table was built
        self._longest = 0  # most times one key was sent on

    @staticmethod
    def bytes_for(capacity: int, words: int) -> int:
        return capacity * (8 * words + 8) + 5 * _places(capacity)

    def __len__(self) -> int:
        """Distinct keys in the index."""
        return self._used

    @property
    def nbytes(self) -> int:
        return self.codes.nbytes + self._table.nbytes + self._passed.nbytes + self._place.nbytes + self._free.nbytes

    @property
    def slots(self) -> Slots:
        """All slots in use."""
        return np.flatnonzero(self._place != ABSENT).astype(np.int32)

    def codes_of(self, slots: Slots) -> Codes:
        """The keys of these slots."""
        return picked(self.codes, slots)

    def find(self, codes: Codes) -> Slots:
        """The slot of each key, or ABSENT."""
        place = self._home(codes)
        found = self._table.take(place)
        equal = self._has(found, codes)
        rest = np.flatnonzero(self._passed.take(place) & ~equal)
        found[~equal] = ABSENT
        place, step = place.take(rest), 1
        while len(rest) > _FEW and step <= self._longest:
            place = (place + step) & self._mask
            here = self._table.take(place)
            equal = self._has(here, picked(codes, rest))
            found[rest[equal]] = here[equal]
            on = np.flatnonzero(self._passed.take(place) & ~equal)
            rest, place = rest.take(on), place.take(on)
            step += 1
        if len(rest) and step <= self._longest:
            # The last few look at all places that are left to them at once: a key is in the table once.
            steps = np.cumsum(np.arange(step, self._longest + 1))
            here = self._table.take((place[:, None] + steps) & self._mask)
            equal = self._has(here.ravel(), picked(codes, np.repeat(rest, len(steps)))).reshape(here.shape)
            row, column = np.nonzero(equal)
            found[rest[row]] = here[row, column]
        return found

    def add(self, codes: Codes) -> Slots:
        """The slot of each key, a new one for those not yet known. There must be room for all that are new."""
        slots = self.find(codes)
        new = np.flatnonzero(slots == ABSENT)
        if len(new):
            if self._passes > _MOST_PASSES * len(self._table):
                self._rebuild()
            slots[new] = self._insert(picked(codes, new))
        return slots

    def remove(self, slots: Slots) -> None:
        """Forget these (distinct) slots' keys."""
        self._table[self._place[slots]] = _EMPTY
        self._place[slots] = ABSENT
        free = self.capacity - self._used
        self._free[free : free + len(slots)] = slots
        self._used -= len(slots)
        if not self._used:
            self.clear()

    def clear(self) -> None:
        self._empty()
        self._place[:] = ABSENT
        self._free[:] = np.arange(self.capacity - 1, -1, -1, dtype=np.int32)
        self._used = 0

    def check(self) -> None:
        """Assert every invariant."""
        used = self.slots
        # Every key is found where it was put, and nowhere else.
        assert np.array_equal(self.find(self.codes[used]), used)
        assert len(used) == self._used == int(np.count_nonzero(self._table >= 0))
        # A slot is in use or free, never both.
        free = self._free[: self.capacity - self._used]
        assert len(np.union1d(used, free)) == self.capacity

    def _has(self, slots: Slots, codes: Codes) -> npt.NDArray[np.bool_]:
        """Whether each of these slots is one, and has this key."""
        equal = same(self.codes_of(slots), codes)
        equal &= slots >= 0
        return equal

    def _insert(self, codes: Codes) -> Slots:
        """Slots for keys that are not in the table; the same key may come several times."""
        slots = np.full(len(codes), ABSENT, np.int32)
        rest = np.arange(len(codes), dtype=np.int32)
        place = self._home(codes)
        step = 1
        while len(rest):
            here = self._table[place]
            vacant = here < 0
            # Claims are written as numbers below the one that means empty: the last writer of a place wins.
            self._table[place[vacant]] = -3 - rest[vacant]
            claimed = self._table[place]
            winner = -3 - claimed
            won = vacant & (winner == rest)
            taken = self._take(picked(codes, rest[won]), place[won])
            slots[rest[won]] = taken
            self._table[place[won]] = taken
            lost = np.flatnonzero(~won)
            if not len(lost):
                break
            # A key that lost to its equal, now or in an earlier round, shares its slot.
            there = self._table[place[lost]]
            equal = same(self.codes_of(there), picked(codes, rest[lost]))
            slots[rest[lost[equal]]] = there[equal]
            lost = lost[~equal]
            rest, place = rest[lost], self._send_on(place[lost], step)
            step += 1
        return slots

    def _take(self, codes: Codes, place: npt.NDArray[np.int64]) -> Slots:
        free = self.capacity - self._used
        if len(codes) > free:
            raise OverflowError(f"{len(codes)} new keys, but room for {free} of {self.capacity}")
        taken = self._free[free - len(codes) : free].copy()
        self._used += len(codes)
        self.codes[taken] = codes
        self._place[taken] = place
        return taken

    def _rebuild(self) -> None:
        """The same slots in a table where only their own keys were sent on."""
        self._empty()
        rest = self.slots
        place, step = self._home(self.codes_of(rest)), 1
        while len(rest):
            vacant = self._table[place] == _EMPTY
            self._table[place[vacant]] = rest[vacant]
            won = self._table[place] == rest
            self._place[rest[won]] = place[won]
            rest, place = rest[~won], self._send_on(place[~won], step)
            step += 1
        self._passes = 0

    def _empty(self) -> None:
        self._table[:] = _EMPTY
        self._passed[:] = False
        self._passes = self._longest = 0

    def _send_on(self, place: npt.NDArray[np.int64], step: int) -> npt.NDArray[np.int64]:
        """Where keys go that met others at these places."""
        if len(place):
            self._passed[place] = True
            self._passes += len(place)
            self._longest = max(self._longest, step)
        return (place + step) & self._mask

    def _home(self, codes: Codes) -> npt.NDArray[np.int64]:
        return (hashes(codes) >> self._shift).astype(np.int64)


def _places(capacity: int) -> int:
    """A power of two, at least twice the capacity: short ways even for keys that are not there."""
    return 1 << max(1, (2 * max(1, capacity) - 1).bit_length())
