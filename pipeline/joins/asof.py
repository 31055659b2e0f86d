"""Of all master rows that a join finds for a sale, the one that was valid at the sale's time.

A row is valid from a moment on (inclusive; null: ever since) up to another one (exclusive; null: for good). Where
several are valid, which no master should have, the one that begins last counts, and of these the one with the greatest
surrogate key: the fact is the same in whichever order a join finds them.

>>> moments = [pa.array(column, pa.timestamp("us", "UTC")) for column in ([None, 5], [5, None], [4, 5, None])]
>>> rows = pa.table({"surrogate_key": [1, 2], "begins": moments[0], "ends": moments[1]})
>>> both = Served(np.repeat(np.arange(3), 2), rows, np.tile(np.arange(2), 3))
>>> valid = ValidRows("begins", "ends", pa.chunked_array([moments[2]]), rows.schema)
>>> valid.add([both])
>>> served = valid.served()
>>> [None if row == ABSENT else served.rows["surrogate_key"][row].as_py() for row in served.match]
[1, 2, None]
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.columns import SURROGATE_KEY
from pipeline.joins.algorithm import ABSENT, Positions, Served

Moments = npt.NDArray[np.int64]  # microseconds

_EVER, _FOR_GOOD = np.iinfo(np.int64).min, np.iinfo(np.int64).max


class ValidRows:
    """Of the sales of one window. Keeps a row a sale, and between two looks at them as many again."""

    def __init__(self, begins: str, ends: str, at: pa.ChunkedArray, schema: pa.Schema) -> None:
        """`begins` and `ends` are columns of the master rows, `at` is each sale's time."""
        self._begins, self._ends = begins, ends
        self._at, self._has_time = _microseconds(at, 0), np.asarray(at.is_valid())
        self._found = [(np.empty(0, np.int64), schema.empty_table())]  # sales, and a valid row of each
        self._rows = 0
        self._several = np.zeros(len(at), bool)  # of the sales: more than one row was valid

    def add(self, served: Iterable[Served]) -> None:
        """What a join has served, of whichever sales."""
        for piece in served:
            found = np.flatnonzero(piece.match != ABSENT)
            sales, match = piece.sales[found], piece.match[found]
            begins = _microseconds(piece.rows[self._begins].take(pa.array(match)), _EVER)
            ends = _microseconds(piece.rows[self._ends].take(pa.array(match)), _FOR_GOOD)
            at = self._at[sales]
            valid = np.flatnonzero(self._has_time[sales] & (begins <= at) & (at < ends))
            self._found.append((sales[valid], piece.rows.take(pa.array(match[valid]))))
            self._rows += len(valid)
            if self._rows > 2 * len(self._at):
                self._keep_the_last()

    def served(self) -> Served:
        """Every sale once, in order: when the join has served them all."""
        sales, rows = self._keep_the_last()
        match = np.full(len(self._at), ABSENT)
        match[sales] = np.arange(len(sales))
        return Served(np.arange(len(self._at)), rows, match)

    @property
    def overlapping(self) -> int:
        """Sales for which several rows were valid."""
        return int(np.count_nonzero(self._several))

    def _keep_the_last(self) -> tuple[Positions, pa.Table]:
        """Of each sale's valid rows the one that begins last."""
        sales = np.concatenate([sales for sales, _ in self._found])
        rows = pa.concat_tables([rows for _, rows in self._found])
        order = np.lexsort((np.asarray(rows[SURROGATE_KEY]), _microseconds(rows[self._begins], _EVER), sales))
        is_last = np.append(np.diff(sales[order]) != 0, True)[: len(sales)]
        self._several[sales[order[~is_last]]] = True
        kept = order[is_last]
        self._found, self._rows = [(sales[kept], rows.take(pa.array(kept)).combine_chunks())], len(kept)
        return self._found[0]


def _microseconds(times: pa.ChunkedArray, null: int) -> Moments:
    return np.asarray(pc.fill_null(times.cast(pa.timestamp("us", "UTC")).cast(pa.int64()), null))
