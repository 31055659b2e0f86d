"""Rows that lie together: from a first one, so many."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]


def begins(many: npt.NDArray[Any]) -> Numbers:
    """Where each run begins, if they lie one behind the other.

    >>> begins(np.array([2, 0, 3])).tolist()
    [0, 2, 2]
    """
    before: Numbers = np.cumsum(many, dtype=np.int64) - many
    return before


def runs(first: npt.NDArray[Any], many: npt.NDArray[Any]) -> Numbers:
    """The numbers of all rows of all runs.

    >>> runs(np.array([7, 9, 3]), np.array([2, 0, 3])).tolist()
    [7, 8, 3, 4, 5]
    """
    start = np.repeat(first - begins(many), many)
    numbers: Numbers = start + np.arange(len(start))
    return numbers
