"""A join on a machine of the papers: its reads and its work cost declared seconds of a virtual clock.

    trial = Trial("hybridjoin", ComputedRows(2_000_000), 50_000_000, MACHINES["hybridjoin-2011"], skew=1.0)
    trial.warm_up()
    trial.measure(sales=100_000).rate              # the service rate: sales always wait for the join

    trial = Trial("inlj", ...)
    trial.run(bursty(1_000.0), seconds=600).waiting.mean()   # sales arrive at their own rate

Nothing is measured but counts: the same numbers go in and come out on any machine, in any run. The disks are those of
`pipeline/master/disks.py`. What the processor does is charged from what the join and its master count, by the unit
costs of the papers' equations, when it is done:

    a sale taken             c_S, and c_F if the join keeps rows to look it up in
    ... that has to wait     c_A + c_E
    a row read               c_H, also each time that one that stays in memory is looked up among the waiting sales
    a result                 c_O
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import Any

import numpy as np

from pipeline import joins
from pipeline.bench.charged.machines import Machine
from pipeline.bench.charged.stretches import Column, Observed, Saturated, first_pair, mean_length
from pipeline.bench.charged.told import ENDLESS, options
from pipeline.bench.workload.laws import Draws
from pipeline.bench.workload.stream import STEP, Moments, Sales
from pipeline.generate.zipf import ZipfDraw
from pipeline.joins.algorithm import Served
from pipeline.joins.cost.accounting import AS_MEASURED, Accounting
from pipeline.master.charged import ChargedMaster
from pipeline.master.computed import ComputedRows
from pipeline.master.disks import VirtualClock

_IDLE = 3  # steps: one may do nothing, for it costs nothing to find that R ends where the last read did
_ROUNDING = 1e-9
_BEFORE = 1_000_000  # added to the seed: the sales of the past are others
_LONG_ENOUGH = 10  # times what fills the join: then it scans no more, and the cycle begun is not waited for


class Trial:
    """A join, its computed master, its sales, and the clock they share."""

    def __init__(
        self,
        name: str,
        rows: ComputedRows,
        memory: int,
        machine: Machine,
        skew: float = 1.0,
        absent: float = 0.0,
        seed: int = 1,
        pool_bytes: int = 0,
        indexed: bool = True,
        settings: Mapping[str, Any] | None = None,
        accounting: Accounting = AS_MEASURED,
        law: Draws | None = None,
        chained: bool = False,
    ) -> None:
        """`settings`: of algorithms, by name. `pool_bytes`: of the page pool behind look-ups, beside `memory`, which is
        counted as `accounting` says. `law`: of the sales, if not Zipf's of this skew; the cost model is told the skew.
        `chained`: as ChargedMaster has it."""
        self.clock = VirtualClock()
        self.master = ChargedMaster(rows, machine.disk, self.clock, pool_bytes, indexed, chained=chained)
        law = law or ZipfDraw(rows.ranks, skew)
        shaping = options(machine, rows, law, skew, absent, settings or {}, accounting, self.clock, pool_bytes, chained)
        self.join = joins.make(name, self.master, memory, shaping)
        self.prediction = joins.predict(name, memory, self.join.relation, shaping)
        self._cpu = machine.processor
        self._rows_probe = self.join.algorithm.rows_probe
        self._keeps_rows = joins.recipe(name).keeps_rows
        self._looks_up = self._keeps_rows and not self._rows_probe
        self._sales, self._past = Sales(rows, law, absent, seed), Sales(rows, law, absent, seed + _BEFORE)
        self._charged = self._counts()
        self._admitted, self._served = Column(), Column()  # moments; of a sale not served yet: nan
        self._most_pending = 0

    @property
    def admitted(self) -> int:
        """Sales admitted so far."""
        return len(self._admitted.all)

    @property
    def served(self) -> int:
        return self.admitted - self.join.pending

    @property
    def cycles(self) -> float:
        """How often R was scanned."""
        return self.master.reads.by_kind["scan"].rows / self.master.rows.rows

    @property
    def _waited(self) -> int:
        """Sales that left the queue so far; what a cache served never stood in it."""
        return self._counts()[1] - self.join.pending

    @property
    def _rounds(self) -> int:
        """So many sales have to leave the queue until it tells nothing any more of how it was filled."""
        return self.join.algorithm.settles_in * self._most_pending

    @property
    def _kept(self) -> int:
        """The rows that the join keeps, or has room for: h_R, or l partitions of k rows."""
        sizes = self.prediction.parameters
        return max(self.join.cached_rows, int(sizes.get("h_R", 0)), int(sizes.get("l", 0) * sizes.get("k", 0)))

    def _turned(self, served: int, waited: int, sales: int) -> bool:
        """Whether the queue's rounds are over since `served` and `waited`. Where a cache serves nearly all they never
        are: then so many sales are enough that those which wait hardly count."""
        rounds = self._rounds
        return self._waited - waited >= rounds or self.served - served >= _LONG_ENOUGH * max(rounds, sales)

    def warm_up(self, sales: int = 0, cycles: float = 1.0, sales_a_cached_row: int = 100) -> None:
        """Serve waiting sales until as many left the queue as filled it (as often as the join needs to settle), and at
        least `sales`; R was scanned so often, if it is; the rows that the cache has room for were chosen from so many.

        Of a join that keeps no rows, `sales` of the past leave nothing but pages in the pool: that is filled at once.
        """
        if self.master.pool_capacity and not self._keeps_rows:
            self._fill_pool(sales)
            sales = 0
        # At first all of a queue comes at once. What is wanted much leaves early, until the others have filled H.
        self._saturate(
            lambda: (
                self.served >= max(1, sales, sales_a_cached_row * self._kept)
                and self._turned(0, 0, sales)
                and (self.cycles >= cycles or not self.cycles)
            )
        )

    def measure(self, sales: int) -> Saturated:
        """Serve at least so many sales, of which more wait always; whole cycles, if the join scans R. Where sales
        leave out of turn, as many as warm it up: what is wanted much comes first, and a part of a round tells of that.

        From a full queue to a full one. One read may empty most of it, and filling it costs as much as other sales do:
        between any two steps HYBRIDJOIN was off by a seventh.
        """
        self._offer(ENDLESS)
        began, served, admitted, first_cycle = self.clock(), self.served, self.admitted, self.cycles
        counted, reads, disk = deepcopy(self.join.statistics), deepcopy(self.master.reads), self.master.disk_use
        waited, whole = self._waited, 0

        def enough() -> bool:
            nonlocal whole
            before, whole = whole, int(self.cycles - first_cycle + _ROUNDING)
            gone = self.served - served
            if gone < sales or (self.join.algorithm.settles_in > 1 and not self._turned(served, waited, sales)):
                return False
            idle = not self.cycles or (self.cycles == first_cycle and gone >= self._most_pending)
            return whole > before or idle or gone >= _LONG_ENOUGH * max(sales, self._most_pending)

        self._saturate(enough)
        self._offer(ENDLESS)
        gone = self._served.all >= began
        counts = self.join.statistics - counted
        return Saturated(
            sales=self.served - served,
            admitted=self.admitted - admitted,
            seconds=self.clock() - began,
            hits=counts.hits,
            matched=counts.matched,
            unmatched=counts.unmatched,
            processing=(self._served.all - self._admitted.all)[gone],
            reads=self.master.reads - reads,
            disk=self.master.disk_use - disk,
        )

    def run(self, arrivals: Iterator[Moments], seconds: float, warm_up: float = 0.0) -> Observed:
        """Let sales arrive from now on, for so long; what happens in the first `warm_up` seconds is not told."""
        if not 0 <= warm_up < seconds:
            raise ValueError(f"warm_up = {warm_up}: of {seconds} seconds, some must be left to tell of")
        start, arrived, ahead = self.clock(), Column(), np.empty(0)
        first = self.admitted  # in this run
        looks: list[tuple[float, int, int]] = []
        while self.clock() < start + seconds:
            while not len(ahead) or ahead[-1] <= self.clock():
                ahead = np.concatenate([ahead, start + next(arrivals)])
            come = int(np.searchsorted(ahead, self.clock(), side="right"))
            arrived.append(ahead[:come])
            ahead = ahead[come:]
            before, waiting = self.clock(), len(arrived.all) - (self.admitted - first)
            looks.append((before, waiting, self.join.pending))
            taken = self._offer(waiting)
            looks.append((self.clock(), waiting - taken, self.join.pending))
            if not self._step() and not taken and self.clock() == before:
                # Nothing to do. A join that has sales and does nothing waits for more of them than the next one.
                self.clock.wait_until(max(ahead[0], before + STEP * (self.join.pending > 0)))
        return self._observed(start + warm_up, first, arrived.all, looks)

    def _observed(self, since: float, first: int, arrived: Moments, looks: list[tuple[float, int, int]]) -> Observed:
        at, queued, pending = (np.array(column) for column in zip(*looks, strict=True))
        at, queued, pending = (looked[first_pair(at, since) :] for looked in (at, queued, pending))
        since, until = at[0], at[-1]
        admitted, served = self._admitted.all[first:], self._served.all[first:]
        waiting, processing = admitted - arrived[: len(admitted)], served - admitted
        taken, gone = ((since < moments) & (moments <= until) for moments in (admitted, served))
        return Observed(
            seconds=float(until - since),
            arrived=int(np.count_nonzero((since < arrived) & (arrived <= until))),
            admitted=int(np.count_nonzero(taken)),
            served=int(np.count_nonzero(gone)),
            waiting=waiting[taken],
            processing=processing[gone],
            mean_queued=mean_length(arrived, admitted, since, until),
            mean_pending=mean_length(self._admitted.all, self._served.all, since, until),
            at=at,
            queued=queued,
            pending=pending,
        )

    def _fill_pool(self, sales: int) -> None:
        while sales > 0:
            keys = self._past.next(sales)
            self.master.fill_pool(keys)
            self._past.taken(len(keys))
            sales -= len(keys)

    def _saturate(self, enough: Callable[[], bool]) -> None:
        idle = 0
        while not enough():
            before = self.clock(), self.served
            taken = self._offer(ENDLESS)
            self._most_pending = max(self._most_pending, self.join.pending)
            served = self._step()
            idle = 0 if taken or served or before != (self.clock(), self.served) else idle + 1
            assert idle < _IDLE, "the join does nothing, and takes nothing"

    def _offer(self, most: int) -> int:
        """Offer until the join takes no more; say how many it took."""
        offered = 0
        while offered < most:
            now, keys = self.clock(), self._sales.next(most - offered)
            taken = self.join.offer(np.arange(self.admitted, self.admitted + len(keys)), keys)
            if not taken:
                break
            self._sales.taken(taken)
            self._admitted.append(np.full(taken, now))
            self._served.append(np.full(taken, np.nan))
            self._charge()
            offered += taken
        return offered

    def _step(self) -> list[Served]:
        pieces = self.join.step()
        self._charge()
        for piece in pieces:
            self._served.all[piece.sales] = self.clock()
        return pieces

    def _charge(self) -> None:
        """What the processor has done since the last time."""
        counts, cpu = self._counts(), self._cpu
        taken, waited, read, results = (new - old for new, old in zip(counts, self._charged, strict=True))
        self._charged = counts
        a_sale = cpu.c_S + cpu.c_F * self._looks_up
        self.clock.advance(taken * a_sale + waited * (cpu.c_A + cpu.c_E) + read * cpu.c_H + results * cpu.c_O)

    def _counts(self) -> tuple[int, int, int, int]:
        done, reads = self.join.statistics, self.master.reads.by_kind
        waited = done.misses + done.hits * self._rows_probe
        read = sum(reads[kind].rows for kind in ("scan", "page", "lookup"))
        return done.offered, waited, read + done.probed, done.served
