"""INLJ, the index nested loop join: every distinct key of the sales in hand is asked for by name."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.joins.algorithm import OUT_OF_TURN, Algorithm, Served, Workplace, at_least, matched_rows
from pipeline.joins.cost import inlj as cost
from pipeline.joins.cost.question import Model
from pipeline.joins.parts.keycodes import Codes
from pipeline.joins.parts.keyindex import Slots
from pipeline.joins.parts.waiting import Places, Positions, WaitingSales
from pipeline.joins.recipe import Recipe


@dataclass(frozen=True)
class Settings:
    batch: int = 2_000  # most keys asked for in one query; 1: as published

    def __post_init__(self) -> None:
        at_least(1, batch=self.batch)


class IndexNestedLoopJoin(Algorithm):
    """
    Idea
        For each sale, find its master row by the index on the key. Sales with the same key that wait together share
        one look-up.

    Memory
        M = h_S * v_S + b * v_R, with h_S sales in hand and b keys a query. At most half of M goes to the second term.

    Departures from the paper
        hybridjoin-2011 (section 3) asks for one sale at a time, each for itself: that is `batch=1`. Larger batches send
        distinct keys in one statement and share the answers. Where a key may have many rows, see InPieces.

    Example
        >>> from pipeline.joins import Options, make
        >>> from pipeline.master.memory import MemoryMaster
        >>> R = MemoryMaster.of({b"ale": 1, b"bun": 2, b"cod": 3, b"dip": 4})
        >>> join = make("inlj", R, memory=64_000, options=Options(settings={"inlj": Settings(batch=2)}))
        >>> join.offer(np.arange(3), pa.array([b"bun", b"elk", b"bun"], pa.binary()))
        3
        >>> matched, absent = join.step()
        >>> matched.sales.tolist(), matched.rows["surrogate_key"].take(pa.array(matched.match)).to_pylist()
        ([2, 0], [2, 2])
        >>> absent.sales.tolist(), absent.match.tolist(), join.pending
        ([1], [-1], 0)

    Reference
        Naeem, Dobbie, Weber: HYBRIDJOIN for Near-Real-Time Data Warehousing, 2011, section 3.
    """

    name: ClassVar[str] = "inlj"
    model: ClassVar[Model[Any]] = cost
    Settings: ClassVar[type] = Settings
    least_for: ClassVar[str] = "one sale and its master row"
    takes_repeated_keys: ClassVar[bool] = True

    def __init__(self, workplace: Workplace) -> None:
        super().__init__(workplace)
        self.split = cost.split(self.question)
        self.settles_in = OUT_OF_TURN if self.split.b > 1 else 1
        self._waiting = WaitingSales(self.split.h_S, self.R.words, marks=not self.R.unique)
        self._most_keys = self.split.b
        self._answer_bytes = 0

    # Section 3 has no pseudocode; what it says, for a batch of keys:
    #    1  take the next tuples from the stream
    def admit(self, positions: Positions, codes: Codes) -> int:
        self._waiting.admit(positions, codes)
        self.statistics.misses += len(positions)
        return len(positions)

    #    2  access R through its index with their join values
    #    3  output the matching tuples
    def iterate(self, drain: bool) -> list[Served]:
        sales, codes = self._next_sales()
        rows = self._look_up(codes)
        return self.leave(self._waiting, sales, rows)

    def _next_sales(self) -> tuple[Places, Codes]:
        """The sales that wait longest and their distinct keys, and with them all others with these keys."""
        oldest = self._waiting.oldest(self._most_keys)
        if self.split.b == 1:
            return oldest, self._waiting.codes(oldest)
        slots = np.unique(self._waiting.slot[oldest])
        if len(slots) < self._most_keys:  # some of them share a key: fill the query with the keys of others
            others = np.setdiff1d(self._waiting.index.slots, slots, assume_unique=True)
            slots = np.concatenate([slots, others[: self._most_keys - len(slots)]])
        return self._waiting.with_keys(slots), self._waiting.index.codes_of(slots)

    def _look_up(self, codes: Codes) -> pa.Table:
        self.asked_at = self.workplace.clock()
        rows = self.master.lookup(self.coder.decode(codes))
        self._answer_bytes = rows.nbytes
        return rows

    @property
    def room(self) -> int:
        return self._waiting.room

    @property
    def pending(self) -> int:
        return len(self._waiting)

    def memory_used(self) -> dict[str, int]:
        return {"sales": self._waiting.nbytes + self.coder.nbytes, "answer": self._answer_bytes}

    def check(self) -> None:
        self._waiting.check()


@dataclass
class _Asked:
    """The keys that are being asked for."""

    sales: Places  # with these keys
    keys: pa.Array
    position: bytes | None = None  # of the row read last
    answered: bool = False  # its last rows have been read
    rows: int = 0  # read so far
    pieces: int = 0


class InPieces(IndexNestedLoopJoin):
    """
    Idea
        INLJ where an index finds the rows of a key, and nothing says that it has only one. Whatever a key has is read
        in pieces of so many rows as there is room for; a sale leaves when its key's last row has been read, or comes
        out without a row if there was none.

    Memory
        As INLJ's, but the second term is a quarter of M in rows, however many rows a key has, and a mark a sale. What
        rows and sales make together may be many times that: it leaves in portions of at most h_S pairs. No sale is
        admitted until the keys in hand are answered.

    Departures from the paper
        How many keys are asked for at once follows from what they bring: twice as many if they filled less than half a
        piece, half as many if they needed several, for a server sorts their rows for each piece.

    Example
        >>> from pipeline.joins import make
        >>> from pipeline.master.memory import MemoryMaster
        >>> once = MemoryMaster.of({b"ale": 1, b"bun": 2}).table
        >>> R = MemoryMaster(pa.concat_tables([once, once]), unique=False, indexed=True)
        >>> join = make("inlj", R, memory=64_000)
        >>> join.offer(np.arange(2), pa.array([b"bun", b"elk"], pa.binary()))
        2
        >>> [(served.sales.tolist(), served.match.tolist()) for _ in range(2) for served in join.step()]
        [([0, 0], [0, 1]), ([1], [-1])]

    Reference
        See IndexNestedLoopJoin; that chains of rows of one key make it slower says meshjoin-icde2007, section 4.2.
    """

    def __init__(self, workplace: Workplace) -> None:
        super().__init__(workplace)
        self._most_keys = 1
        self._asked: _Asked | None = None
        self._rows: pa.Table = self.master.schema.empty_table()  # of the piece in hand
        self._portions: deque[tuple[Slots, npt.NDArray[np.int32]]] = deque()  # of its matches, not yet put out

    def iterate(self, drain: bool) -> list[Served]:
        asked = self._asked = self._asked or self._ask()
        if not self._portions:
            self._read(asked)
        served = self._probe(asked)
        if asked.answered and not self._portions:
            served += self._leave(asked)
        return served

    def _ask(self) -> _Asked:
        sales, codes = self._next_sales()
        self.asked_at = self.workplace.clock()
        return _Asked(sales, self.coder.decode(codes))

    def _read(self, asked: _Asked) -> None:
        piece = self.master.lookup_from(asked.keys, asked.position, self.split.rows)
        asked.position, asked.answered = piece.position, piece.reached
        asked.rows += len(piece.rows)
        asked.pieces += 1
        self._rows = piece.rows
        self._portions.extend(self._waiting.portions(self.codes_of(self._rows)))
        self._answer_bytes = self._rows.nbytes

    def _probe(self, asked: _Asked) -> list[Served]:
        if not self._portions:
            return []
        places, numbers = self._waiting.pairs(*self._portions.popleft())
        if self.split.b == 1:  # as published, each sale for itself
            its_own = places == asked.sales[0]
            places, numbers = places[its_own], numbers[its_own]
        if not len(places):
            return []
        self._waiting.met[places] = True
        rows, match = matched_rows(self._rows, numbers)
        self._answer_bytes = self._rows.nbytes + (rows.nbytes if rows is not self._rows else 0)
        if not self._portions:
            self._rows = self._rows.slice(0, 0)
        return [Served(self._waiting.positions[places], rows, match)]

    def _leave(self, asked: _Asked) -> list[Served]:
        """All rows of these keys have been read."""
        missing = asked.sales[~self._waiting.met[asked.sales]]
        absent = self.absent(self._waiting.positions[missing], self._waiting.codes(missing))
        self._waiting.release(asked.sales)
        self._asked = None
        if asked.pieces > 1:
            self._most_keys = max(1, self._most_keys // 2)
        elif 2 * asked.rows <= self.split.rows:
            self._most_keys = min(self.split.b, 2 * self._most_keys)
        return [absent] if len(missing) else []

    @property
    def room(self) -> int:
        return 0 if self._asked else self._waiting.room

    def finished(self, positions: Positions) -> npt.NDArray[np.bool_]:
        waiting = self._waiting.positions[self._waiting.oldest(len(self._waiting))]
        return ~np.isin(positions, waiting)

    def check(self) -> None:
        super().check()
        # Only sales whose rows are being read are marked.
        marked = np.flatnonzero(self._waiting.met)
        assert np.isin(marked, self._asked.sales if self._asked else []).all()


def _build(workplace: Workplace) -> Algorithm:
    return (IndexNestedLoopJoin if workplace.question.R.unique else InPieces)(workplace)


INLJ = replace(Recipe.of(IndexNestedLoopJoin), build=_build)
