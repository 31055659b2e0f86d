"""What a worker may ask of the database in a second: a statement, or a row, that has to wait for it costs that wait."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pipeline.joins.cost.prediction import Prediction


@dataclass(frozen=True)
class Caps:
    """A worker's share of the load contract.

    >>> Caps(queries=4).seconds(queries=10, rows=5_000), Caps(rows=1_000, read=125).seconds(queries=1, rows=5_000)
    (2.5, 5.0)
    """

    queries: float = math.inf  # a second
    rows: float = math.inf  # a second
    read: float = math.inf  # rows that one statement may bring: longer reads are cut

    def seconds(self, queries: float, rows: float) -> float:
        """The least time in which these may be asked for."""
        return max(max(queries, rows / self.read) / self.queries, rows / self.rows)

    def held(self, join: Prediction) -> Prediction:
        """What comes of a join that asks so much, when it has to wait: all goes on, as much slower.

        >>> Caps(queries=100).held(Prediction({}, mu=5_000.0, queries=250.0)).mu
        2000.0
        """
        return join.slower(max(1.0, self.seconds(join.queries, join.rows)))
