"""Heals beside a running job: the unknown facts of keys that the master's feed tells of.

The table is all the state there is: what is unknown there and known to the master can be healed. So nothing has to be
kept over a restart, whose feed begins with "all of it": then all unknown facts are gone through, window by window, and
keys that are told meanwhile come first. After a failure likewise.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from itertools import chain
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.config.contracts import DimensionContract
from pipeline.master.feed import Changes
from pipeline.plan import Plan
from pipeline.repair.allowance import Allowance
from pipeline.repair.census import Census, packed_keys
from pipeline.repair.steps import commit, opened
from pipeline.repair.unknown import UnknownFacts, is_unknown
from pipeline.repair.window import Window
from pipeline.warehouse.log import TableLog

_LONGEST_TURN = 10.0  # seconds, and what is in hand then


class Tell(Protocol):
    """Hears of each turn, by dimension: the facts it healed; those unknown, and the Unix time of the oldest of them."""

    def healing(self, healed: Mapping[str, int], unknown: Mapping[str, tuple[int, float | None]]) -> None: ...

    def healing_failed(self) -> None: ...


@dataclass
class _Work:
    """Facts to ask the master for."""

    windows: Iterator[pa.Table]
    place: str  # in the master's log: all changes before it are seen when these facts are asked for

    def put_back(self, facts: pa.Table) -> None:
        self.windows = chain([facts], self.windows)


class Healer:
    """Does a turn at a time: one thread calls it."""

    def __init__(
        self,
        plan: Plan,
        log: TableLog,
        dimensions: Sequence[DimensionContract],
        tell: Tell,
        is_over: Callable[[], bool],
        asking: Callable[[], AbstractContextManager[None]] = nullcontext,
        most: int = 0,
    ) -> None:
        """The master is asked within `asking`, for `most` facts at once; 0: for a window of the worker's."""
        self._plan, self._log, self._dimensions, self._tell, self._is_over = plan, log, dimensions, tell, is_over
        self._asking, self._most = asking, most or plan.settings.worker.window_sales
        self._allowance = Allowance(plan.settings.warehouse.heal_rows_per_minute)
        self._census = Census(dimensions)
        self._by_keys: list[_Work] = []
        self._sweep: _Work | None = None  # through all unknown facts
        self._sweep_again = False

    @property
    def is_busy(self) -> bool:
        """Whether another turn has something to do that nobody needs to tell."""
        return bool(self._by_keys or self._sweep or self._sweep_again)

    def turn(self, told: Changes) -> None:
        """Look at what is new in the table, and heal for some seconds, as long as this minute's facts last. What is
        told must be visible to who asks the master now, and each fact that was joined without it must be committed."""
        healed: Counter[str] = Counter()
        try:
            self._turn(told, healed)
        except BaseException:
            self._by_keys, self._sweep, self._sweep_again = [], None, True
            raise
        finally:
            self._tell.healing(healed, self._census.total(self._since()))

    def _turn(self, told: Changes, healed: Counter[str]) -> None:
        self._log.refresh()
        unknown = UnknownFacts(self._log, self._plan.facts, self._dimensions, self._since(), all_cores=False)
        self._census.look(unknown, self._is_over)
        keys = {d.name: told.keys[d.name] for d in self._dimensions if d.name in told.keys}
        if keys and (paths := self._census.files_with(keys)):
            self._by_keys.append(_Work(self._with_keys(unknown, paths, keys), told.place))
        self._sweep_again |= any(dimension.name in told.all_of for dimension in self._dimensions)
        if self._sweep_again and self._sweep is None:
            self._sweep_again = False
            self._sweep = _Work(unknown.windows(self._most), told.place)
        self._work(healed)
        if healed:
            self._log.refresh()
            healed_by_now = UnknownFacts(self._log, self._plan.facts, self._dimensions, self._since(), all_cores=False)
            self._census.look(healed_by_now, self._is_over)

    def _work(self, healed: Counter[str]) -> None:
        until = time.monotonic() + _LONGEST_TURN
        while (work := next(iter(self._by_keys), self._sweep)) is not None:
            if self._is_over() or time.monotonic() >= until or not self._allowance.left():
                return
            if (facts := next(work.windows, None)) is not None:
                self._heal(facts, work, healed)
            elif work is self._sweep:
                self._sweep = None
            else:
                self._by_keys.remove(work)

    def _heal(self, facts: pa.Table, work: _Work, healed: Counter[str]) -> None:
        """As many of them as may be healed in this minute; the others are asked for again."""
        left = self._allowance.left()
        names = [dimension.name for dimension in self._dimensions]
        with self._asking(), opened(self._plan, self._dimensions) as dimensions:
            window = Window(facts, dimensions, self._plan.settings.worker)
        known = window.known(left)
        if len(known):
            healed.update(commit(self._log, self._plan, known, names, work.place))
            self._allowance.spend(len(known))
        if (done := window.passed(left)) < len(facts):
            work.put_back(facts.slice(done))

    def _with_keys(self, unknown: UnknownFacts, paths: set[str], keys: Mapping[str, pa.Array]) -> Iterator[pa.Table]:
        files = [file for path, file in unknown.files().items() if path in paths]
        for window in unknown.windows(self._most, files):
            wanted = np.zeros(len(window), bool)
            for dimension in self._dimensions:
                if dimension.name in keys:
                    among = pc.is_in(packed_keys(window, dimension), value_set=keys[dimension.name])
                    wanted |= np.asarray(among) & is_unknown(window, dimension)
            if wanted.any():
                yield window.filter(pa.array(wanted))

    def _since(self) -> datetime:
        return datetime.now(timezone.utc) - timedelta(seconds=self._plan.settings.warehouse.heal_age)
