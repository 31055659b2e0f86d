"""How long a page of R waits to be read, when the page is read next that is worth most: see PageDemand."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pipeline.joins.cost.search import crossing
from pipeline.joins.parts.wantedpages import PATIENCE

Shares = npt.NDArray[np.float64]


def waits_for_the_best(counts: Shares, q: Shares, h: float) -> Shares:
    """T of each page, in sales that come between the first that wants it and its read; `counts` pages have share q.

    After T, 1 + q T sales wait for a page, so it is worth (1 + q T) T. It is read when that is what the best page is
    worth at any time, a constant c of the stream: T = (sqrt(1 + 4 q c) - 1) / (2 q). And c follows from how many wait:

        h_S = sum q T (1 + q T / 2) / (1 + q T)
    """

    def ages(worth: float) -> Shares:
        T: Shares = np.minimum(2 * worth / (np.sqrt(1 + 4 * q * worth) + 1), PATIENCE * h)
        return T

    def waiting(worth: float) -> float:
        T = ages(worth)
        return float((counts * q * T * (1 + q * T / 2) / (1 + q * T)).sum())

    return ages(crossing(waiting, h, 1.0, (2.0 + PATIENCE * h) ** 2))
