"""For how long sales stay while R is scanned, in cycles."""

from __future__ import annotations

import numpy as np

from pipeline.joins.cost.question import Relation, Stream


def until_served(R: Relation, stream: Stream, k: int, slots: int) -> float:
    """Cycles until a sale is served, if it comes in at one of R's first `slots` reads of k.

    A sale with a row is served when it meets it, in the mean half a cycle later; but where R is sorted by frequency the
    slots may be taken when the rows wanted most have just gone by.
    """
    if not R.unique:
        return 1.0
    slots, j = min(slots, k), np.arange(k)
    reads = j - (slots - 1) / 2 + 1 + k * np.maximum(0, slots - 1 - j) / slots  # from coming in until the j-th
    if R.order == "by frequency":
        met = float((stream.over(R).of_pages(k, R.order) * reads).sum()) / k
    else:
        met = float(reads.mean()) / k
    return (1 - stream.absent) * met + stream.absent


def until_gone(R: Relation, stream: Stream, fills: int) -> float:
    """For how many cycles a place in H is taken, if a sale leaves with its row and H is filled so often a cycle.

    A cycle serves S sales: q_j S at the j-th fill, whose rows have that share. So many come in for them, and q_j of
    these have to wait for a whole cycle. Then h_S = S (1 + sum q_j^2) / 2, wherever the scan stands; where R is sorted
    by frequency, the first q_j is large.
    """
    if not R.unique:
        return 1 + 1 / (2 * fills)
    q = stream.over(R).of_pages(fills, R.order)
    return (1 - stream.absent) * (1 + float((q**2).sum())) / 2 + stream.absent
