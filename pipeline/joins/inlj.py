"""INLJ, the index nested loop join: every distinct key of the sales in hand is asked for by name."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.joins.base import Join, Positions, Served, match
from pipeline.master.port import Master

_SALE_BYTES = 8 + 4 + 8  # position, code of its key, place in the order of codes: kept per sale
# A place in the order of keys, and the encoder's hash table: it grows fourfold at half full, so that right after it a
# key takes ten slots of 24 bytes, the old table's included. Per sale, since all keys may differ.
_KEY_BYTES = 8 + 240


class IndexNestedLoopJoin(Join):
    """
    Idea
        For each sale, find its master row by the index on the key. Sales with the same key that wait together share
        one look-up.

    Memory
        M = h * (v_S + v_key) + 2 * b * v_R, with h sales in hand, b keys a query, and room for rows twice as wide as
        the mean. At most half of M goes to the second term, whose b has a ceiling of its own, since longer queries
        stop gaining; the sales get the rest.

    Departures from the paper
        hybridjoin-2011 (section 3) asks for one sale at a time: that is `batch=1`, without sharing: a key that
        repeats within the window is still asked for once. Larger batches send the distinct keys in one `IN` list.

    Example
        >>> from pipeline.master.memory import MemoryMaster
        >>> R = MemoryMaster.of({b"ale": 1, b"bun": 2, b"cod": 3, b"dip": 4})
        >>> join = IndexNestedLoopJoin(R, memory=64_000, batch=2)
        >>> join.offer(np.arange(3), pa.array([b"bun", b"elk", b"bun"], pa.binary()))
        3
        >>> [served] = join.step()
        >>> served.sales.tolist(), served.rows["surrogate_key"].take(pa.array([served.match[0]])).to_pylist()
        ([0, 2, 1], [2])
        >>> served.match.tolist(), join.pending
        ([0, 0, -1], 0)

    Reference
        Naeem, Dobbie, Weber: HYBRIDJOIN for Near-Real-Time Data Warehousing, 2011, section 3.
    """

    name: ClassVar[str] = "inlj"

    def __init__(self, master: Master, memory: int, batch: int = 2_000) -> None:
        super().__init__(master, memory, batch)
        row_bytes = max(1.0, master.statistics().row_bytes)
        self._require(int(4 * row_bytes) + 4_096, "one sale and its master row")
        self.batch = max(1, min(batch, int(memory / 2 / (2 * row_bytes))))
        self._sales_memory = memory - int(2 * row_bytes * self.batch)
        self._answer_bytes = 0
        self._forget()

    # Paper, section 3, read for a batch of keys:
    #   1  while true
    #   2    read the next tuples from S                                  -> _admit
    #   3    access R by the index with their keys                        -> _look_up
    #   4    output the matching pairs; the tuples leave                  -> _release
    def _iterate(self, drain: bool) -> list[Served]:
        first, last = self._next, min(self._next + self.batch, len(self._distinct))
        rows = self._look_up(first, last)
        return [self._release(first, last, rows)]

    def _admit(self, positions: Positions, keys: pa.Array) -> int:
        if self._pending() or not len(keys):
            return 0
        taken = self._that_fit(keys)
        encoded = keys.slice(0, taken).dictionary_encode()
        codes = encoded.indices.to_numpy()
        self._positions = positions[:taken]
        self._distinct = encoded.dictionary
        self._order = np.argsort(codes, kind="stable")
        # The sales of the distinct key number i are _order[_starts[i]:_starts[i + 1]].
        self._starts = np.searchsorted(codes[self._order], np.arange(len(self._distinct) + 1))
        self._next = 0
        self.statistics.misses += taken
        return taken

    def _that_fit(self, keys: pa.Array) -> int:
        """How many sales fit into the sales' share: at least one, or the join could never go on."""
        per_sale = np.full(len(keys), _SALE_BYTES + _KEY_BYTES)
        lengths = 8 if pa.types.is_integer(keys.type) else 2 * np.asarray(pc.binary_length(keys))
        return max(1, int(np.searchsorted(np.cumsum(per_sale + lengths), self._sales_memory, side="right")))

    def _look_up(self, first: int, last: int) -> pa.Table:
        rows = self.master.lookup(self._distinct.slice(first, last - first))
        self._answer_bytes = rows.nbytes
        return rows

    def _release(self, first: int, last: int, rows: pa.Table) -> Served:
        row_of_key = match(self._distinct.slice(first, last - first), rows)
        counts = np.diff(self._starts[first : last + 1])
        sales = self._positions[self._order[self._starts[first] : self._starts[last]]]
        self._next = last
        if last == len(self._distinct):
            self._forget()
        return Served(sales, rows, np.repeat(row_of_key, counts))

    def _forget(self) -> None:
        self._positions = np.empty(0, np.int64)
        self._order = np.empty(0, np.int64)
        self._starts = np.zeros(1, np.int64)
        self._distinct = pa.array([], self.master.key_type)
        self._next = 0

    def _pending(self) -> int:
        return len(self._positions) - int(self._starts[self._next])

    def memory_used(self) -> dict[str, int]:
        sales = self._positions.nbytes + self._order.nbytes + self._starts.nbytes + self._distinct.nbytes
        return {"sales": sales, "answer": self._answer_bytes}

    def check(self) -> None:
        super().check()
        # Every waiting sale is in the order exactly once.
        assert np.array_equal(np.sort(self._order), np.arange(len(self._positions)))
        # Keys are asked for once: none is behind the cursor and ahead of it.
        assert len(self._distinct.unique()) == len(self._distinct)
