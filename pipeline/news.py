"""What the driver tells the workers with each micro-batch: which master rows have changed.

A server writes a change to its log a moment before others can read it, so a change is told until it was told once when
it had settled. And as a worker need not be in every batch, each of the news covers what was told for a while, from
number `first` on. Who knows all before that forgets the keys that it names; who does not forgets all it keeps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa


@dataclass(frozen=True)
class News:
    """What no worker may serve from memory any more."""

    first: int = 0
    settled: int = -1  # up to this number the changes are so old that every read sees them; first - 1: none of these
    keys: Mapping[str, pa.Array] = field(default_factory=dict)  # by dimension, packed by `pipeline.keys`
    all_of: frozenset[str] = frozenset()  # dimensions
    altered: Mapping[str, int] = field(default_factory=dict)  # by dimension: how often its table was, so far
    place: str = ""  # in the master's log: who has heard this serves no row from before it; empty: no feed
    told_until: Mapping[str, float] = field(default_factory=dict)  # by dimension, Unix time: see `Changes`

    def forgets(self, dimension: str, known: int | None) -> pa.Array | None:
        """The keys of a dimension that one forgets who knows the changes up to this number; None: all it keeps. Who
        keeps nothing yet knows None. Once they are forgotten, one knows what is settled.

        >>> news = News(first=3, settled=4, keys={"product": pa.array([7])}, all_of=frozenset({"store"}))
        >>> news.forgets("product", known=2).to_pylist(), news.forgets("customer", known=None).to_pylist()
        ([7], [])
        >>> news.forgets("product", known=1) is None, news.forgets("store", known=2) is None
        (True, True)
        """
        has_missed_some = known is not None and known + 1 < self.first
        if has_missed_some or dimension in self.all_of:
            return None
        return self.keys.get(dimension, pa.array([], pa.int64()))

    def age(self, dimension: str, now: float) -> float:
        """For how long more may have changed than this tells, at a Unix time; infinite: nobody tells all changes."""
        return max(0.0, now - self.told_until[dimension]) if dimension in self.told_until else math.inf
