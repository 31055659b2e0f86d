"""An R that is computed, never stored: any row of a hundred million, from its number."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.errors import BadSetting
from pipeline.master.port import KEY

Numbers = npt.NDArray[np.int64]

APART = 2  # keys are even: a sale with an odd one has no master row
_LEAST_BYTES = 3 * 8  # key, surrogate key, updated_at
_FILLERS = 3  # columns: in a real table none is nearly all of the row either
_MOST_ROWS = 1 << 40
_SECOND = 1_000_000


class Law(Protocol):
    """How often keys come; `pipeline.generate.zipf.ZipfDraw` is one, where the most frequent come first."""

    @property
    def ranks(self) -> int:
        """How many keys there may be."""
        ...

    def shares_of_first(self, ranks: Numbers) -> npt.NDArray[np.float64]:
        """The part of all that has one of so many first keys."""
        ...

    def draw(self, random: npt.NDArray[np.float64]) -> Numbers:
        """The key, from 0, that each number of [0, 1) falls on."""
        ...


class Scatter:
    """A shuffled order of the numbers below `size` that nobody keeps: each number's place is computed, and back.

    A Feistel network over two digits of base `low` and `high`, a few more than `size` numbers; who falls outside goes
    on until he is inside, which leaves it one to one.

    >>> scatter = Scatter(10, seed=1)
    >>> places = scatter.place(np.arange(10))
    >>> sorted(places.tolist()) == list(range(10)), scatter.number(places).tolist() == list(range(10))
    (True, True)
    """

    _ROUNDS = 6

    def __init__(self, size: int, seed: int) -> None:
        self._size = size
        self._low = math.isqrt(size - 1) + 1
        self._high = -(-size // self._low)
        self._seeds = np.random.default_rng(seed).integers(0, 1 << 63, self._ROUNDS).astype(np.uint64)

    def place(self, numbers: Numbers) -> Numbers:
        return self._until_inside(numbers, range(self._ROUNDS), 1)

    def number(self, places: Numbers) -> Numbers:
        return self._until_inside(places, range(self._ROUNDS - 1, -1, -1), -1)

    def _until_inside(self, numbers: Numbers, rounds: range, sign: int) -> Numbers:
        shuffled = self._shuffle(numbers, rounds, sign)
        while len(outside := np.flatnonzero(shuffled >= self._size)):
            shuffled[outside] = self._shuffle(shuffled[outside], rounds, sign)
        return shuffled

    def _shuffle(self, numbers: Numbers, rounds: range, sign: int) -> Numbers:
        high, low = numbers // self._low, numbers % self._low
        for turn in rounds:
            if turn % 2:
                high = (high + sign * self._mixed(low, turn, self._high)) % self._high
            else:
                low = (low + sign * self._mixed(high, turn, self._low)) % self._low
        shuffled: Numbers = high * self._low + low
        return shuffled

    def _mixed(self, numbers: Numbers, turn: int, base: int) -> Numbers:
        """A number below the base that looks drawn at random: splitmix64's last steps."""
        mixed = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + self._seeds[turn]
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        below: Numbers = ((mixed ^ (mixed >> np.uint64(31))) % np.uint64(base)).astype(np.int64)
        return below


@dataclass(frozen=True)
class ComputedRows:
    """
    Idea
        Rows are numbered from 0 in the order of their keys; everything in a row follows from its number by arithmetic.
        Ranks tell how much a key is wanted by the sales, 0 the most.

        Without a `law` keys are unique. R is sorted by frequency: who is wanted most comes first. Or it is `scattered`:
        who is wanted most lies anywhere, told by a shuffle that is computed as well.

        With a law keys repeat as the law says, to the nearest row; a key that the law gives less than half a row may
        have none. Ranks are then the law's, from the least key. R lies on the disk in the order of its keys, or, if
        `scattered`, its rows lie anywhere.

    Memory
        None but for what is asked: `row_bytes` a row.

    Example
        >>> rows = ComputedRows(100_000_000, scattered=True)
        >>> keys = rows.keys_of(np.array([0, 1, 2]))
        >>> rows.table(rows.first_at(keys))["key"].to_pylist() == keys.tolist()
        True
    """

    rows: int  # R_t
    row_bytes: int = 120  # v_R, in Arrow, the key included
    law: Law | None = None  # how keys repeat; None: they are unique
    scattered: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.rows <= _MOST_ROWS:
            raise BadSetting(f"rows = {self.rows:,}: a computed table has 1 to {_MOST_ROWS:,} rows.", about=["rows"])
        if self.row_bytes < _LEAST_BYTES:
            raise BadSetting(
                f"row_bytes = {self.row_bytes}: key, surrogate key and update time alone take {_LEAST_BYTES} bytes; "
                "no row is narrower.",
                about=["row_bytes"],
            )

    @property
    def unique(self) -> bool:
        return self.law is None

    @property
    def clustered(self) -> bool:
        """Rows lie on the disk in the order of their keys."""
        return self.unique or not self.scattered

    @cached_property
    def schema(self) -> pa.Schema:
        fillers = [(f"filler_{n}", pa.binary(width)) for n, width in enumerate(self._filler_bytes, start=1)]
        named = [(KEY, pa.int64()), ("surrogate_key", pa.int64()), ("updated_at", pa.timestamp("us", tz="UTC"))]
        return pa.schema(named + fillers)

    @cached_property
    def _filler_bytes(self) -> list[int]:
        filler = self.row_bytes - _LEAST_BYTES
        parts = [filler * n // _FILLERS for n in range(_FILLERS + 1)]
        return [end - start for start, end in pairwise(parts) if end > start]

    @cached_property
    def _scatter(self) -> Scatter:
        return Scatter(self.rows, self.seed)

    def keys_of(self, ranks: Numbers) -> Numbers:
        """The keys that are wanted most, second, ... by the sales."""
        numbers: Numbers = self._scatter.place(ranks) if self.unique and self.scattered else ranks
        keys: Numbers = APART * numbers
        return keys

    @property
    def ranks(self) -> int:
        """How many keys there may be."""
        return self.rows if self.law is None else self.law.ranks

    def table(self, numbers: Numbers) -> pa.Table:
        """The rows with these numbers."""
        columns = [
            pa.array(self.keys_at(numbers)),
            pa.array(numbers + 1),
            pa.array(numbers * _SECOND).cast(self.schema.field("updated_at").type),
            *(self._filler(numbers, width) for width in self._filler_bytes),
        ]
        return pa.Table.from_arrays(columns, schema=self.schema)

    @staticmethod
    def _filler(numbers: Numbers, width: int) -> pa.Array:
        """The row's number again and again: a row in the wrong place would be seen."""
        words = np.empty((len(numbers), -(-width // 8)), np.int64)
        words[:] = numbers[:, None]
        cut = np.ascontiguousarray(words.view(np.uint8).reshape(len(numbers), words.shape[1] * 8)[:, :width])
        return pa.Array.from_buffers(pa.binary(width), len(numbers), [None, pa.py_buffer(cut)])

    def keys_at(self, numbers: Numbers) -> Numbers:
        """The key of each row."""
        if self.law is None:
            return APART * numbers
        rank = self.law.draw((numbers + 0.5) / self.rows)
        # The inverse of a law is as exact as floating point lets it be; which row is a key's first says the law itself.
        while len(wrong := np.flatnonzero(self._first_of(rank) > numbers)):
            rank[wrong] -= 1
        while len(wrong := np.flatnonzero(self._first_of(rank + 1) <= numbers)):
            rank[wrong] += 1
        return APART * rank

    def first_at(self, keys: Numbers) -> Numbers:
        """The first row whose key is not below each of these; `rows`, if there is none."""
        keys = np.asarray(keys, np.int64)
        at = np.clip(keys // APART + keys % APART, 0, self.ranks)
        return at if self.law is None else self._first_of(at)

    def behind(self, keys: Numbers) -> Numbers:
        """The first row behind each of these keys."""
        keys = np.asarray(keys, np.int64)
        at = np.clip(keys // APART + 1, 0, self.ranks)
        return at if self.law is None else self._first_of(at)

    def _first_of(self, ranks: Numbers) -> Numbers:
        assert self.law is not None
        first = np.ceil(self.rows * self.law.shares_of_first(np.minimum(ranks, self.law.ranks)) - 0.5)
        first[ranks >= self.law.ranks] = self.rows
        return first.astype(np.int64)

    def places_of(self, numbers: Numbers) -> Numbers:
        """Where rows lie on the disk."""
        return numbers if self.clustered else self._scatter.place(numbers)

    def numbers_at(self, places: Numbers) -> Numbers:
        """The rows that lie at these places of the disk."""
        return places if self.clustered else self._scatter.number(places)
