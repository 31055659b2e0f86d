"""What sales find where keys repeat in R."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Results:
    """
    Idea
        Kinds of keys: those of one are wanted about as much, and have about as many rows. Where nobody knows them, as
        in a job, and where keys are unique, there are none: then a sale has one result.

    Example
        >>> two = Results(keys=(1.0, 10.0), p=(0.5, 0.05), rows=(30.0, 3.0))
        >>> two.mean, two.hits(30.0), two.without(30.0).rows, UNKNOWN.mean
        (16.5, 0.5, (3.0,), 1.0)
    """

    keys: tuple[float, ...]  # how many of a kind
    p: tuple[float, ...]  # the share of the sales that want one of them
    rows: tuple[float, ...]  # that one has

    def __bool__(self) -> bool:
        return bool(self.keys)

    @classmethod
    def of(cls, p: Floats, rows: Floats) -> Results:
        """Of keys, each with its own numbers; those that differ by less than a twentieth are one kind."""
        p, rows = p[p > 0], rows[p > 0]
        wanted, many = (np.rint(each / _ALIKE).astype(np.int64) for each in (np.log(p), np.log1p(rows)))
        # Both in one number: pairs take fifty times as long to sort.
        alike = wanted * (many.max(initial=0) + 1) + many
        _, kind, keys = np.unique(alike, return_inverse=True, return_counts=True)
        means = [np.bincount(kind.ravel(), column) / keys for column in (p / p.sum(), rows)]
        return cls(*(tuple(column.tolist()) for column in (keys.astype(np.float64), *means)))

    @cached_property
    def columns(self) -> tuple[Floats, Floats, Floats]:
        """The same as arrays."""
        return np.array(self.keys), np.array(self.p), np.array(self.rows)

    @cached_property
    def mean(self) -> float:
        """The results of a sale: itself, if no row has its key."""
        if not self:
            return 1.0
        keys, p, rows = self.columns
        return float((keys * p * np.maximum(1.0, rows)).sum())

    @cached_property
    def until_last(self) -> float:
        """Of a scan of all R, which begins anywhere, how much goes by until a sale has met the last row of its key."""
        if not self:
            return 1.0
        keys, p, rows = self.columns
        return float((keys * p * np.where(rows > 0, rows / (rows + 1), 1.0)).sum())

    def hits(self, h_R: float) -> float:
        """The share of the sales that a cache of so many rows serves: it has all rows of a key or none."""
        keys, p, _ = self.columns
        return float((self._cached(h_R) * keys * p).sum())

    def without(self, h_R: float) -> Results:
        """What such a cache leaves."""
        keys, p, rows = self.columns
        left = keys * (1 - self._cached(h_R))
        some, wanted = left > 0, float((left * p).sum())
        return Results(*(tuple(column[some].tolist()) for column in (left, p / max(wanted, 1e-300), rows)))

    def _cached(self, h_R: float) -> Floats:
        """Of each kind, how much is in a cache for so many rows and as many keys; a key without one takes no row."""
        keys, p, rows = self.columns
        best = np.argsort(-p / np.maximum(rows, 1.0), kind="stable")
        cached = np.zeros(len(keys))
        cached[best] = np.minimum(_within(h_R, keys[best]), _within(h_R, (keys * rows)[best]))
        return cached


def _within(most: float, taken: Floats) -> Floats:
    """How much of each fits, one after the other; nothing behind what did not."""
    return np.clip((most - (np.cumsum(taken) - taken)) / np.maximum(taken, 1e-9), 0.0, 1.0)


_ALIKE = 0.05
UNKNOWN = Results((), (), ())
