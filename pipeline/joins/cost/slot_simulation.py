"""A window of sales played with dice: how often the fullest of many slots must be emptied."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

_SAMPLES = 64  # parts of the slots that are emptied at once, for speed
PATIENCE = 2  # a slot waits at most so many times as many turns as there are slots
_LONG_ENOUGH = 40  # times as many sales as can wait: more of them do as these did

Shares = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Play:
    """What a window costs."""

    hits: float
    reads: float  # of pages
    proofs: float  # times that keys are asked for whose page is kept
    waiting: float  # sales, in the mean over the reads and proofs


def play(shares: Shares, h_S: int, kept: int, sales: int, by_utility: bool, absent: float = 0.0) -> Play:
    """One window after another, with dice: which pages are wanted, which is the fullest slot, which page is kept.

    At most `h_S` sales wait, `kept` pages stay. The first window fills the cache, the second is counted.
    `by_utility`: the pages kept are those most wanted (ssij), else those used last (partitioned). `absent`: the share
    of sales that find no row on a page that is kept, and wait.
    """
    shares = shares / shares.sum()  # a single page may have a hair more than 1, which the dice refuse
    dice = np.random.default_rng(0)
    state = _State(shares, kept, by_utility, absent)
    played = min(sales, _LONG_ENOUGH * (h_S + len(shares)))
    for _ in range(2):
        state.begin()
        left = played
        while left or state.waiting:
            # As many sales as there is room for: if some of them are hits, more come after them.
            come = min(left, max(0, round((h_S - state.waiting) / max(0.02, 1 - state.hit_share))))
            if come:
                state.admit(dice.multinomial(come, shares), dice)
                left -= come
            state.read(left == 0)
    times = sales / played
    waiting = state.waited / max(1.0, state.reads + state.proofs)
    return Play(state.hits * times, state.reads * times, state.proofs * times, waiting)


class _State:
    def __init__(self, shares: Shares, most_kept: int, by_utility: bool, absent: float) -> None:
        self.shares, self.most_kept, self.by_utility, self.absent = shares, most_kept, by_utility, absent
        self.count = np.zeros(len(shares))
        self.used = np.zeros(len(shares))
        self.kept = np.zeros(len(shares), np.bool_)
        if by_utility and most_kept:
            self.kept[np.argsort(shares)[-most_kept:]] = True
        self.now = 0.0
        self.turns = 0  # of slots
        self.since = np.zeros(len(shares))  # a slot has not been empty
        self.begin()

    def begin(self) -> None:
        self.hits = self.reads = self.proofs = self.waited = 0.0

    @property
    def waiting(self) -> int:
        return int(self.count.sum())

    @property
    def hit_share(self) -> float:
        return float(self.shares[self.kept].sum()) * (1 - self.absent)

    def admit(self, come: npt.NDArray[np.int64], dice: np.random.Generator) -> None:
        self.now += 1
        wait = np.where(self.kept, dice.binomial(come, self.absent) if self.absent else 0, come)
        self.since[(self.count == 0) & (wait > 0)] = self.turns
        self.hits += int((come - wait).sum())
        self.used[self.kept & (come > wait)] = self.now
        self.count += wait

    def read(self, last: bool) -> None:
        """Empty the fullest slots, but first those that waited too long, some at once; at the end all."""
        most = len(self.count) if last else max(1, len(self.count) // _SAMPLES)
        self.turns += most
        late = (self.count > 0) & (self.turns - self.since > PATIENCE * len(self.count))
        urgent = np.where(late, self.turns - self.since + self.count.max(), self.count)
        fullest = np.argpartition(-urgent, most - 1)[:most]
        fullest = fullest[self.count[fullest] > 0]
        of_kept = int(np.count_nonzero(self.kept[fullest]))
        self.reads += len(fullest) - of_kept
        self.proofs += of_kept
        self.waited += len(fullest) * self.count.sum() / (2 if last else 1)
        self.count[fullest] = 0
        fullest = fullest[~self.kept[fullest]]
        if self.by_utility or not self.most_kept:
            return
        self.used[fullest] = self.now + 0.5
        self.kept[fullest] = True
        surplus = int(np.count_nonzero(self.kept)) - self.most_kept
        if surplus > 0:
            kept = np.flatnonzero(self.kept)
            self.kept[kept[np.argsort(self.used[kept], kind="stable")[:surplus]]] = False
