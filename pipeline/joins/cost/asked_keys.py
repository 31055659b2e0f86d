"""How many keys a query asks for, and how many of the sales that wait it serves."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from pipeline.joins.cost.lookups import Floats
from pipeline.joins.cost.question import Relation, Stream
from pipeline.joins.cost.search import crossing

_SELDOM = 1e-6
_NEVER = 1e-280  # a share, of what a front stage serves


@dataclass(frozen=True)
class Tried:
    """How many keys are asked for at once, where nobody knows how many rows they have."""

    keys: float
    answers: tuple[tuple[float, float], ...]  # how often one comes each time, and its rows


@dataclass(frozen=True, eq=False)
class AskedKeys:
    """What is in a query, in the mean."""

    sales: float  # that it serves
    number: Floats  # of keys of one kind
    often: Floats  # one of them is in so many queries
    rows: Floats  # of a key; 0: there is none

    @property
    def keys(self) -> float:
        return float((self.number * self.often).sum())

    @property
    def found(self) -> float:
        """Rows."""
        return float((self.number * self.often * self.rows).sum())

    @property
    def looked_for(self) -> float:
        """Places: of rows, and where a row would be."""
        return float((self.number * self.often * np.maximum(1.0, self.rows)).sum())

    def more_pieces(self, rows: int) -> float:
        """Of so many rows each, that bring what a key has besides what comes with others, or with the end."""
        return float((self.number * self.often * (self.rows // rows)).sum() / self.keys)

    def tried(self, rows: int, most: int) -> Tried:
        """If twice as many keys are tried when they had half a piece of so many rows, and half as many when more.

        As often as from m keys to 2 m it goes back, and so the mean follows.
        """
        of_kind, alone = self.number * self.often / self.keys, self.rows >= rows
        share = float(of_kind[alone].sum())
        usual = of_kind[~alone] / max(1e-12, 1 - share)
        mean = float((usual * np.maximum(1.0, self.rows[~alone])).sum())
        deviation = math.sqrt(max(0.0, float((usual * self.rows[~alone] ** 2).sum()) - mean**2) + 1e-9)

        def within(bound: float, m: int) -> float:
            """How likely m keys have no more together, if none has a piece alone."""
            return (1 + math.erf((bound - m * mean) / deviation / math.sqrt(2 * m))) / 2

        tried, weights = [1], [1.0]
        while tried[-1] < most and weights[-1] > _SELDOM * max(weights):
            last, m = tried[-1], min(most, 2 * tried[-1])
            halved = max(_SELDOM, 1 - (1 - share) ** m * within(rows, m))
            weights.append(weights[-1] * (1 - share) ** last * within(rows / 2, last) / halved)
            tried.append(m)
        often = [weight / sum(weights) for weight in weights]
        answers = []
        for m, so_often in zip(tried, often, strict=True):
            more, spread = 1 - within(rows, m), deviation * math.sqrt(m)
            density = math.exp(-(((rows - m * mean) / spread) ** 2) / 2) / math.sqrt(2 * math.pi)
            beyond = max(0.0, spread * density - (rows - m * mean) * more)  # rows, in the mean
            answers.append((so_often, m * mean - beyond))
            if more > _SELDOM:
                answers.append((so_often * more, beyond / more))
        return Tried(sum(so_often * m for m, so_often in zip(tried, often, strict=True)), tuple(answers))


@lru_cache(maxsize=1_024)
def one_sale(stream: Stream, R: Relation) -> AskedKeys:
    """A query for each."""
    number, p, rows = _wanted(stream, R)
    return AskedKeys(1.0, number, p, rows)


@lru_cache(maxsize=1_024)
def asked_keys(stream: Stream, R: Relation, h: float, most: float) -> AskedKeys:
    """Of h sales that wait a query serves those with `most` keys, that wait longest; then as many come.

    If n come at once, a key is wanted again by the first n that have it, after 1 / (1 - exp(-p n)) queries in the mean,
    and asked for L - 1 queries later. So it is in one of

        1 / (1 - exp(-p n)) + L - 1

    queries; n and L follow from how many keys are in each, and from how many sales wait, with the last n:

        h = sum (L p n / (1 - exp(-p n)) + p n L (L - 1) / 2) / (1 / (1 - exp(-p n)) + L - 1)

    With one query for all keys that is n = h and L = 1; with many queries it is as where pages are read.
    """
    number, p, rows = _wanted(stream, R)
    every = AskedKeys(h, number, -np.expm1(-p * h), rows)
    if every.keys <= most:
        return every

    def often(L: float) -> Floats:
        n = _come(number, p, h, L)
        in_so_many: Floats = 1 / (-1 / np.expm1(-p * n) + L - 1)
        return in_so_many

    L = crossing(lambda L: most / float((number * often(L)).sum()), 1.0, 1.0, 1.0 + 2 * h)
    return AskedKeys(_come(number, p, h, L), number, often(L), rows)


def _wanted(stream: Stream, R: Relation) -> tuple[Floats, Floats, Floats]:
    """Keys, those with and those without a row, the share of the sales that want one of them, and its rows."""
    if stream.results:
        number, p, rows = stream.results.columns
    else:
        number, p = stream.over(R).buckets
        rows = np.ones(len(p))
    if stream.absent:
        number, rows = np.tile(number, 2), np.concatenate([rows, np.zeros(len(rows))])
        p = np.concatenate([(1 - stream.absent) * p, stream.absent * p])
    return number, np.maximum(p, _NEVER), rows


def _come(number: Floats, p: Floats, h: float, L: float) -> float:
    """n, if a key's first sale waits for L queries."""

    def waiting(n: float) -> float:
        first = -1 / np.expm1(-p * n)
        return float((number * p * n * L * (first + (L - 1) / 2) / (first + L - 1)).sum())

    return crossing(waiting, h, h * 1e-9, h)
