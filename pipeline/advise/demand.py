"""What is asked of the job, and what bounds it: a sale's way costs time beside the joins, too."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from pipeline.master.share import Contract
from pipeline.plan import Plan
from pipeline.watch import families
from pipeline.watch.access import OPEN, Access
from pipeline.watch.scrape import NoAnswer, scrape

_LARGE = 50_000  # messages a batch, in which the time to read them is hardly a time of waiting for them
_FULL = 0.98  # a job so busy is taken for overloaded: its waits would have no end


@dataclass(frozen=True)
class Way:
    """What a sale costs a worker beside the joins, in seconds.

    These are guesses, seen on two cores with the shipped contracts (`make bench` measures the sum), unless a running
    job has measured them.
    """

    read: float = 8.0e-6  # out of Kafka, through Spark, into the worker
    parse: float = 2.0e-6
    write: float = 2.0e-6  # columns, Parquet files
    batch: float = 0.25  # seconds for each batch, however small: planning, starting tasks, commit
    measured: frozenset[str] = frozenset()  # which of them

    @property
    def path(self) -> float:
        return self.read + self.parse + self.write

    @classmethod
    def of_job(cls, url: str, access: Access = OPEN) -> Way:
        """As the job with these metrics has found it; where there is none, the guesses."""
        try:
            seen = scrape(url, access)
        except NoAnswer:
            return cls()
        messages, batches = seen.total(families.MESSAGES), seen.total(families.BATCHES)
        if messages < _LARGE or not batches:
            return cls()
        # In small batches most of the reading is waiting for more.
        phases = ("read", "parse", "write") if messages / batches >= _LARGE else ("parse", "write")
        seconds = {phase: seen.total(families.PHASE_SECONDS, phase=phase) / messages for phase in phases}
        known = {phase: each for phase, each in seconds.items() if each > 0}
        return cls(**known, measured=frozenset(known))


@dataclass(frozen=True)
class Demand:
    """So many sales a second, of so many workers."""

    rate: float
    workers: int
    counted: bool  # False: the cluster decides how many workers there are, so the figures are those of one
    period: float  # seconds; 0: until all is worked off
    most: int  # sales a batch
    window: int  # sales a worker takes at once
    way: Way = field(default_factory=Way)

    @classmethod
    def of(cls, plan: Plan, rate: float, way: Way | None = None) -> Demand:
        job, workers = plan.settings.job, _local_workers(plan.settings.spark.master)
        return cls(
            rate=rate,
            workers=Contract.tasks_of(plan.settings, workers or 1),
            counted=workers is not None,
            period=0.0 if job.available_now else job.period,
            most=job.max_offsets_per_trigger,
            window=plan.settings.worker.window_sales,
            way=way or Way(),
        )

    def seconds(self, join_rates: Iterable[float] = ()) -> float:
        """What a sale takes of a worker: the way, and joins of these service rates."""
        return self.way.path + sum(1 / rate for rate in join_rates if rate > 0)

    def capacity(self, seconds: float) -> float:
        """The most sales a second if each takes a worker so many seconds: one full batch after the other."""
        return self.most / (self.way.batch + self.most * seconds / self.workers)

    @property
    def served(self) -> float:
        """The rate, as far as a job without joins could keep up with it."""
        return min(self.rate, self.capacity(self.way.path))

    def seconds_left(self, others: float) -> float:
        """What one more step may take of a worker for each sale, beside `others`, so that the rate is kept up with."""
        return self.workers * (1 / self.rate - self.way.batch / self.most) - others

    def interval(self, seconds: float) -> float | None:
        """Seconds from batch to batch at the rate. None: the backlog grows for ever."""
        busy = self.rate * seconds / self.workers
        if busy >= _FULL or self.rate >= self.capacity(seconds):
            return None
        return max(self.period, self.way.batch / (1 - busy))

    def queue_wait(self, seconds: float) -> float | None:
        """Mean seconds from Kafka until the join admits the sale. None: it grows.

        Half of the time between batches until its batch begins, and half of the time the batch takes.
        """
        interval = self.interval(seconds)
        if interval is None:
            return None
        return interval / 2 + (self.way.batch + self.rate * interval * seconds / self.workers) / 2

    def window_of(self, seconds: float) -> int:
        """How many sales come together in a worker at the rate."""
        interval = self.interval(seconds)
        together = self.full_window if interval is None else self.rate * interval / self.workers
        return max(1, min(self.full_window, round(together)))

    @property
    def full_window(self) -> int:
        return max(1, min(self.window, self.most // self.workers))


def _local_workers(master: str) -> int | None:
    """How many tasks run at once; None where a cluster says so.

    >>> _local_workers("local[2,4]"), _local_workers("local"), _local_workers("spark://host:7077")
    (2, 1, None)
    """
    local = re.fullmatch(r"local(?:\[\s*(\d+|\*)\s*(?:,\s*\d+\s*)?\])?", master)
    if not local:
        return None
    return (os.cpu_count() or 1) if local[1] == "*" else int(local[1] or 1)
