"""The hash table H and the queue Q of the papers: the sales that wait, by key and in the order of their arrival."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from pipeline.joins.parts import kernels
from pipeline.joins.parts.budget import most_that_fit
from pipeline.joins.parts.keycodes import Codes
from pipeline.joins.parts.keyindex import KeyIndex, Slots

Positions = npt.NDArray[np.int64]
Places = npt.NDArray[np.int64]  # of sales among those waiting; good until the next call that admits

_PLACE_BYTES = 8 + 4 + 4  # position, slot, the place before with the same key
_KEY_BYTES = 4 + 4 + 4  # newest place, sales, the row it met: as if all keys differed
_SPARE_PLACES = 4  # one part of so many more than sales, so that the queue need not be closed up at each call
_WORK_BYTES = 8 + 4 + 8  # what a match makes on the way: places and rows of the matches, positions


class WaitingSales:
    """
    Idea
        Sales lie in arrays in the order of their arrival; one that leaves marks its place as gone, and the arrays are
        closed up when there is no place left at the end. The places of one key are a chain, so that a row finds its
        sales, and no others: a probe costs the rows and their matches, however many sales wait.

    Memory
        h * (12 + 20) bytes, those of five quarters of h places of 16, and those of a KeyIndex of h keys.

    Example
        >>> waiting = WaitingSales(4, words=1)
        >>> codes = np.array([[7], [9], [7]], np.uint64)
        >>> waiting.admit(np.array([10, 11, 12]), codes).tolist()
        [0, 1, 0]
        >>> places, rows = waiting.match(np.array([[8], [7]], np.uint64))
        >>> waiting.release(places).tolist(), rows.tolist(), len(waiting), waiting.room
        ([12, 10], [1, 1], 1, 3)
    """

    def __init__(self, capacity: int, words: int, marks: bool = False) -> None:
        """`marks`: for joins where a sale stays after it has met a row; a byte a sale more."""
        self.capacity = capacity
        self.index = KeyIndex(capacity, words)
        places = _places(capacity)
        self.positions: Positions = np.zeros(places, np.int64)
        self.slot = np.full(places, capacity, np.int32)  # `capacity`, which is no slot: the sale has gone
        self._earlier = np.zeros(places, np.int32)  # place of the sale before with the same key
        self.met = np.zeros(places if marks else 0, np.bool_)  # of a place: its sale has met a row, and stays
        self._newest = np.full(capacity + 1, -1, np.int32)  # of a slot: the place of its last sale
        self._uses = np.zeros(capacity, np.int32)  # of a slot: its waiting sales
        self._row_of = np.full(capacity + 1, -1, np.int32)  # of a slot, while rows are looked up
        self._first = self._end = 0  # places in use
        self._waiting = 0

    @staticmethod
    def bytes_for(capacity: int, words: int, beside: int = 0) -> int:
        """`beside`: bytes that are kept beside each place, a mark or what its join adds."""
        own = capacity * (_KEY_BYTES + _WORK_BYTES) + _places(capacity) * (_PLACE_BYTES + beside)
        return own + KeyIndex.bytes_for(capacity, words) + 8 + 4

    @classmethod
    def capacity_for(cls, memory: float, words: int, beside: int = 0) -> int:
        """The most sales that fit into so many bytes."""
        return most_that_fit(
            memory,
            lambda number: cls.bytes_for(number, words, beside),
            max(1, int(memory) // (_KEY_BYTES + _WORK_BYTES)),
        )

    def __len__(self) -> int:
        return self._waiting

    @property
    def room(self) -> int:
        """Sales that can still be admitted."""
        return self.capacity - self._waiting

    @property
    def nbytes(self) -> int:
        of_places = self.positions.nbytes + self.slot.nbytes + self._earlier.nbytes + self.met.nbytes
        return of_places + self._newest.nbytes + self._uses.nbytes + self._row_of.nbytes + self.index.nbytes

    def admit(self, positions: Positions, codes: Codes) -> Slots:
        """Add sales at the end of the queue; there must be room. The slots of their keys."""
        if self._end + len(positions) > len(self.slot):
            self._close_up()
        end = self._end + len(positions)
        slots = self.index.add(codes)
        self.positions[self._end : end] = positions
        kernels.enqueue(slots, self._end, self.slot, self._earlier, self._newest, self._uses)
        self._end = end
        self._waiting += len(positions)
        return slots

    def oldest(self, count: int = 1) -> Places:
        """The places of the `count` sales that wait longest."""
        places: Places = np.empty(min(count, self._waiting), np.int64)
        kernels.oldest(self._first, self._end, self.capacity, self.slot, places)
        if len(places):
            self._first = int(places[0])
        return places

    def up_to(self, position: int) -> Places:
        """The places of all that were offered up to this position; positions must ascend in the queue."""
        self.oldest()
        end = self._first + np.searchsorted(self.positions[self._first : self._end], position, side="right")
        places: Places = self._first + np.flatnonzero(self.slot[self._first : end] != self.capacity)
        return places

    def codes(self, places: Places) -> Codes:
        """The keys of waiting sales."""
        return self.index.codes_of(self.slot[places])

    def match(self, codes: Codes) -> tuple[Places, npt.NDArray[np.int32]]:
        """Every pair of a waiting sale and a row with its key: the sales' places and the rows' numbers.

        No sale leaves. Where the rows' keys may repeat, `portions` keeps the pairs from becoming too many.
        """
        return self.pairs(*self._wanted(codes))

    def portions(self, codes: Codes) -> list[tuple[Slots, npt.NDArray[np.int32]]]:
        """The rows that sales wait for, with their keys' slots, cut for `pairs`: a portion makes no more pairs than
        sales can wait. Good until a sale comes or leaves."""
        slots, rows = self._wanted(codes)
        behind = np.cumsum(self._uses[slots], dtype=np.int64)
        cuts = [0]
        while cuts[-1] < len(rows):
            before = behind[cuts[-1] - 1] if cuts[-1] else 0
            cuts.append(int(np.searchsorted(behind, before + self.capacity, side="right")))
        return [(slots[first:last], rows[first:last]) for first, last in pairwise(cuts)]

    def pairs(self, slots: Slots, rows: npt.NDArray[np.int32]) -> tuple[Places, npt.NDArray[np.int32]]:
        """Every pair of a waiting sale and one of these rows, whose keys have these slots."""
        many = int(self._uses[slots].sum(dtype=np.int64))
        places, numbers = np.empty(many, np.int64), np.empty(many, np.int32)
        kernels.pairs(slots, rows, self.slot, self._earlier, self._newest, places, numbers)
        return places, numbers

    def _wanted(self, codes: Codes) -> tuple[Slots, npt.NDArray[np.int32]]:
        """The rows with a key that a sale waits for, and its slot."""
        slots = self.index.find(codes)
        rows = np.flatnonzero(slots >= 0).astype(np.int32)
        return slots[rows], rows

    def with_keys(self, slots: Slots) -> Places:
        """The places of all waiting sales with these (distinct) keys."""
        return self.pairs(slots, slots)[0]

    def number_with(self, codes: Codes) -> npt.NDArray[np.int64]:
        """How many sales wait with each of these keys."""
        slots = self.index.find(codes)
        return np.where(slots >= 0, self._uses[slots], 0).astype(np.int64)

    def rows_of(self, places: Places, codes: Codes) -> Positions:
        """For each of these sales the row with its key, or -1; the rows' keys are distinct."""
        slots = self.index.find(codes)
        rows = np.flatnonzero(slots >= 0)
        self._row_of[slots[rows]] = rows
        match: Positions = self._row_of[self.slot[places]].astype(np.int64)
        self._row_of[slots[rows]] = -1
        return match

    def release(self, places: Places) -> Positions:
        """Let these (distinct) sales go; their positions."""
        last = np.empty(len(places), np.int32)
        gone = kernels.leave(places, self.capacity, self.slot, self._newest, self._uses, last)
        if len(self.met):
            self.met[places] = False
        self.index.remove(last[:gone])
        self._waiting -= len(places)
        if not self._waiting:
            self._first = self._end = 0
        return self.positions[places]

    def check(self) -> None:
        """Assert every invariant."""
        self.index.check()
        waiting = self.slot[: self._end][self.slot[: self._end] != self.capacity]
        # Every waiting sale is in the queue exactly once, none behind its end.
        assert len(waiting) == self._waiting
        assert (self.slot[self._end :] == self.capacity).all()
        # The table holds exactly the keys of waiting sales.
        assert np.array_equal(np.bincount(waiting, minlength=self.capacity), self._uses)
        assert np.array_equal(np.flatnonzero(self._uses), self.index.slots)
        # A key's chain has all its sales, the newest first.
        places, keys = kernels.every_chain(self._newest[:-1], self._earlier)
        there = self.slot[places] == keys
        assert np.array_equal(np.sort(places[there]), np.flatnonzero(self.slot != self.capacity))
        assert (np.diff(places)[np.diff(keys) == 0] < 0).all()
        # No mark is left behind by a look-up of rows.
        assert (self._row_of == -1).all()

    def _close_up(self) -> None:
        queue = self.positions, self.slot, self._earlier, self._newest, self.met
        self._end = kernels.close_up(self._first, self._end, self.capacity, *queue)
        self._first = 0


def _places(capacity: int) -> int:
    return capacity + capacity // _SPARE_PLACES
