"""For how long sales stay while R is scanned, in cycles."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from pipeline.joins.cost.question import Relation, Stream

_CYCLES = 6  # then they are alike


def until_served(R: Relation, stream: Stream, k: int, slots: int) -> float:
    """Cycles until a sale is served, if it comes in at one of R's first `slots` reads of k.

    A sale with a row is served when it meets it, in the mean half a cycle later; but where R is sorted by frequency the
    slots may be taken when the rows wanted most have just gone by.
    """
    if not R.unique:
        return (1 - stream.absent) * stream.results.until_last + stream.absent
    slots, j = min(slots, k), np.arange(k)
    reads = j - (slots - 1) / 2 + 1 + k * np.maximum(0, slots - 1 - j) / slots  # from coming in until the j-th
    if R.order == "by frequency":
        met = float((stream.over(R).of_pages(k, R.order) * reads).sum()) / k
    else:
        met = float(reads.mean()) / k
    return (1 - stream.absent) * met + stream.absent


@dataclass(frozen=True)
class Cycle:
    """Of a scan that serves sales at once when their row comes by."""

    served: float  # sales
    waiting: float  # in the mean, for a row


@lru_cache(maxsize=4_096)
def cycle(R: Relation, stream: Stream, fills: int, h_S: float, fed: float = math.inf) -> Cycle:
    """What a cycle serves, if H is filled so often in it, each time with at most `fed` sales.

    It serves S sales: q_j S at the j-th fill, whose rows have that share. So many come in for them, and q_j of these
    have to wait for a whole cycle. Then h_S = S (1 + sum q_j^2) / 2, wherever the scan stands; where R is sorted by
    frequency, the first q_j is large. A sale without a row stays for a whole cycle, as does one that may have more.
    From fill to fill sales leave evenly, and none come.
    """
    if not R.unique:
        served = min(h_S / (1 + 1 / (2 * fills)), fed * fills)
        return Cycle(served, served * until_served(R, stream, fills, fills))
    q = stream.over(R).of_pages(fills, R.order)
    served = h_S / ((1 - stream.absent) * (1 + float((q**2).sum())) / 2 + stream.absent)
    if served * (float(q.max()) * (1 - stream.absent) + stream.absent / fills) <= fed:
        return Cycle(served, h_S - served / (2 * fills))
    return _fed(q, stream.absent, h_S, fed)


def _fed(q: npt.NDArray[np.float64], absent: float, h_S: float, fed: float) -> Cycle:
    """By playing some cycles: what a fill lacks after many have left comes with the next ones."""
    fills = len(q)
    wait, of_absent = np.zeros(fills), np.zeros(fills)  # for a fill's rows; without a row, by the fill they came with
    waiting = served = total = 0.0
    for turn in range(_CYCLES * fills):
        j = turn % fills
        if turn == (_CYCLES - 1) * fills:
            served = total = 0.0
        waiting -= of_absent[j]
        served += of_absent[j]
        come = min(fed, h_S - waiting)
        of_absent[j] = come * absent
        wait += come * (1 - absent) * q
        waiting += come
        left = wait[j]
        total += waiting - left / 2
        waiting -= left
        served += left
        wait[j] = 0.0
    return Cycle(float(served), float(total / fills))
