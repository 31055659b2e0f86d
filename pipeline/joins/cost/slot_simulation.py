"""A window of sales played with dice: whose slot has its turn, and how many sales it serves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

_SAMPLES = 64  # parts of the slots that are emptied at once, for speed
PATIENCE = 2  # a slot waits at most so many times as many steps as there are slots
_LONG_ENOUGH = 40  # times as many sales as can wait: more of them do as these did
_TO_FILL = 10  # times as many come before any counts

Shares = npt.NDArray[np.float64]
Pages = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Turns:
    """Of slots; each is emptied."""

    page: Pages
    sales: Shares  # that waited in it
    absent: Shares  # of them have no row
    kept: npt.NDArray[np.bool_]  # the page was, and lacks the rows of those that waited
    times: Shares  # that such a turn comes


@dataclass(frozen=True)
class Play:
    """What a window costs."""

    hits: float
    turns: Turns
    waiting: float  # sales, in the mean over the queries


@dataclass(frozen=True)
class Rules:
    """Of a join whose sales wait in slots."""

    shares: Shares  # of the sales, that each page's rows have
    h_S: int  # sales wait at most
    kept: int  # pages stay in memory
    by_utility: bool  # those most wanted (ssij), else those used last (partitioned)
    lot: int  # sales come together, at least: others wait before they are looked at
    threshold: float  # sales that give the fullest slot its turn while there is room
    absent: float  # share of the sales without a row
    by_name: bool  # pages are not read, but keys asked for
    queries: Callable[[Turns], Shares]  # that each turn takes; a step each


def play(rules: Rules, sales: int) -> Play:
    """A window: which pages are wanted, which is the fullest slot, which page is kept.

    A short one is played whole, for a second time, when pages are kept from the first. Of a long one a part is, when
    the slots are as they will be, and the end, where all of them are emptied.
    """
    state = _State(rules)
    some = rules.h_S + len(rules.shares)
    if sales <= _LONG_ENOUGH * some:
        state.admit_all(sales)
        state.empty()
        state.begin()
        state.admit_all(sales)
    else:
        state.admit_all(_TO_FILL * some)
        before = state.waiting
        state.begin()
        state.admit_all(_LONG_ENOUGH * some)
        served = _LONG_ENOUGH * some + before - state.waiting
        state.repeat((sales - state.waiting) / served)
    state.empty()
    return state.played()


class _State:
    def __init__(self, rules: Rules) -> None:
        shares, self.rules = rules.shares, rules
        self.shares = shares / shares.sum()  # a single page may have a hair more than 1, which the dice refuse
        self.dice = np.random.default_rng(0)
        self.count = np.zeros(len(shares))
        self.used = np.zeros(len(shares))
        self.kept = np.zeros(len(shares), np.bool_)
        if rules.by_utility and rules.kept:
            self.kept[np.argsort(shares)[-rules.kept :]] = True
        self.now = 0.0
        self.steps = 0.0
        self.since = np.zeros(len(shares))  # the step in which a slot's first sale came
        self.begin()

    def begin(self) -> None:
        self.hits = self.waited = self.queries = 0.0
        self.turns: list[Turns] = []

    def repeat(self, times: float) -> None:
        """All that has been is to count so many times."""
        self.hits, self.waited, self.queries = self.hits * times, self.waited * times, self.queries * times
        self.turns = [replace(turns, times=turns.times * times) for turns in self.turns]

    def played(self) -> Play:
        turns = Turns(
            page=np.concatenate([turns.page for turns in self.turns] or [np.zeros(0, np.int64)]),
            sales=np.concatenate([turns.sales for turns in self.turns] or [np.zeros(0)]),
            absent=np.concatenate([turns.absent for turns in self.turns] or [np.zeros(0)]),
            kept=np.concatenate([turns.kept for turns in self.turns] or [np.zeros(0, np.bool_)]),
            times=np.concatenate([turns.times for turns in self.turns] or [np.zeros(0)]),
        )
        return Play(self.hits, turns, self.waited / max(1.0, self.queries))

    @property
    def waiting(self) -> int:
        return int(self.count.sum())

    @property
    def _late(self) -> npt.NDArray[np.bool_]:
        return (self.count > 0) & (self.steps - self.since > PATIENCE * len(self.count))

    def admit_all(self, sales: int) -> None:
        """So many sales come as there is room for them."""
        lot = min(self.rules.lot, self.rules.h_S)
        while sales:
            room = self.rules.h_S - self.waiting
            if room >= min(lot, sales):
                come = min(sales, room if lot == 1 else lot)
                self._admit(self.dice.multinomial(come, self.shares))
                sales -= come
            full = self.rules.h_S - self.waiting < lot
            if full or self.count.max() >= self.rules.threshold or self._late.any():
                self._turn(max(1, len(self.count) // _SAMPLES))

    def empty(self) -> None:
        """At the end of a window every slot has its turn."""
        if self.waiting:
            self._turn(len(self.count), last=True)

    def _admit(self, come: Pages) -> None:
        self.now += 1
        absent = self.rules.absent
        wait = np.where(self.kept, self.dice.binomial(come, absent) if absent else 0, come)
        self.since[(self.count == 0) & (wait > 0)] = self.steps
        self.hits += int((come - wait).sum())
        self.used[self.kept & (come > wait)] = self.now
        self.count += wait

    def _turn(self, most: int, last: bool = False) -> None:
        """Empty the fullest slots, but first those that waited too long, some at once."""
        urgent = np.where(self._late, self.steps - self.since + self.count.max(), self.count)
        fullest = np.argpartition(-urgent, most - 1)[:most]
        fullest = fullest[self.count[fullest] > 0]
        sales, kept = self.count[fullest], self.kept[fullest]
        absent = np.where(kept, sales, self.dice.binomial(sales.astype(np.int64), self.rules.absent))
        turns = Turns(fullest, sales, absent, kept, np.ones(len(fullest)))
        queries = self.rules.queries(turns)
        self.turns.append(turns)
        self.steps += queries.sum()
        self.queries += queries.sum()
        if last:
            self.waited += queries.sum() * self.waiting / 2
        else:
            self.waited += float((queries * self._here(turns, queries)).sum())
        self.count[fullest] = 0
        if not self.rules.by_utility and self.rules.kept:
            self._keep(fullest[~kept])

    def _here(self, turns: Turns, queries: Shares) -> Shares:
        """The sales that wait while these queries are asked, in the mean.

        Some of a turn's leave with its first query, and with each others come: as there is room for them, or a lot.
        """
        rules = self.rules
        here = min(rules.h_S, self.waiting + rules.lot - 1)  # with those that are not looked at yet
        if rules.lot == 1:
            return np.full(len(queries), float(here))
        left = np.where(turns.kept | rules.by_name, turns.sales / 2, turns.sales - turns.absent)
        fewer: Shares = np.maximum(0.0, left * (1 - 1 / queries) - rules.lot * (queries - 1) / 2)
        return here - fewer

    def _keep(self, pages: Pages) -> None:
        """For those used longest ago."""
        self.used[pages] = self.now + 0.5
        self.kept[pages] = True
        surplus = int(np.count_nonzero(self.kept)) - self.rules.kept
        if surplus > 0:
            kept = np.flatnonzero(self.kept)
            self.kept[kept[np.argsort(self.used[kept], kind="stable")[:surplus]]] = False
