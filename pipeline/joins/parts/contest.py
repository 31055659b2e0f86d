"""Who has a place in the row cache: those that are wanted most, as far as there is room."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Floats = npt.NDArray[Any]


def most_wanted(wanted: Floats, width: Floats, room: float, most: int) -> npt.NDArray[np.bool_]:
    """Which stay, if they may have so many bytes and be so many. Among equals who comes first.

    >>> most_wanted(np.array([1.0, 5.0, 5.0, 2.0]), np.array([10.0, 10.0, 10.0, 10.0]), room=35, most=2).tolist()
    [False, True, True, False]
    """
    order = np.argsort(-wanted, kind="stable")
    fits = (np.cumsum(width[order]) <= room) & (np.arange(len(order)) < most)
    stays = np.zeros(len(order), np.bool_)
    stays[order[fits]] = True
    return stays


def widths(rows: pa.Table, first: npt.NDArray[Any], many: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Bytes of so many of these rows from each first one; all rows together have those of the table."""
    own = np.zeros(len(rows) + 1)
    for column in rows.columns:
        if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
            own[1:] += np.asarray(pc.fill_null(pc.binary_length(column), 0))
    own[1:] += (rows.nbytes - own.sum()) / max(1, len(rows))
    up_to, begin = np.cumsum(own), np.maximum(first, 0)
    taken: npt.NDArray[np.float64] = up_to[begin + many] - up_to[begin]
    return taken
