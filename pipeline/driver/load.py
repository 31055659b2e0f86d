"""The load contract over the batches of a job: the driver deals out shares with each, and takes back what is unused.

Who asks beside the tasks, as healing does, is lent a part for as long as it needs it: from the moment at which no task
has a share of it, and it first waits as long as what was asked before may count. Given back, it is dealt out again when
what was asked with it no longer counts. So it takes nothing from the tasks while nobody wants it.
"""

from __future__ import annotations

import math
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from pipeline.config.settings import Settings
from pipeline.master.share import Contract, Share, Used

if TYPE_CHECKING:
    from pyspark import SparkContext


_LOOKS = 0.5  # seconds until it is looked again whether all is over


class Load:
    """
    Example
        >>> now = [0.0]
        >>> load = Load(Contract(statements=10), tasks=2, workers=2, clock=lambda: now[0])
        >>> [share.statements for share in load.shares(tasks=2)]
        [5, 5]
        >>> load.told([Used(ago=0.0, statements=5, rows=0)])  # one of them has asked for all it may, just now
        >>> now[0] = 0.4
        >>> load.shares(tasks=1)
        [Share(connections=2, kept=2, statements=10, rows=0, period=1.0, used=(Used(ago=0.4, statements=5, rows=0),))]
        >>> now[0] = 1.0
        >>> load.shares(tasks=1)[0].used
        ()
        >>> load.told([])
        >>> with load.lent(is_over=lambda: False) as part:
        ...     load.shares(tasks=1)[0].statements, part.statements
        (8, 2)
    """

    def __init__(
        self, contract: Contract, tasks: int, workers: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`tasks` of a batch; `workers` that there may be, idle ones too, each with connections of its own."""
        self.contract, self.tasks = contract, tasks
        self._workers, self._clock = workers, clock
        self._used: Sequence[Used] = ()
        self._told_at = 0.0
        self._turn = threading.Condition()
        self._all_is_dealt = False  # tasks have shares of all, the part that is lent too
        self._is_wanted = False  # that part
        self._lent_until = -math.inf

    @classmethod
    def of(cls, settings: Settings, spark: SparkContext) -> Load:
        contract, slots = Contract.of_workers(settings), spark.defaultParallelism
        tasks = Contract.tasks_of(settings, slots)
        # One executor hands its idle workers out first; which of several gets a task is not known.
        is_local = re.fullmatch(r"local(\[.*\])?", str(spark.master)) is not None
        return cls(contract, tasks, tasks if is_local else slots)

    def shares(self, tasks: int) -> list[Share]:
        """For the tasks of the next batch, from now on."""
        with self._turn:
            now = self._clock()
            self._all_is_dealt = not (self._is_wanted or now < self._lent_until)
            self._turn.notify_all()
            dealt = self.contract if self._all_is_dealt else self.contract.without_lent
            age = now - self._told_at
            used = [replace(one, ago=one.ago + age) for one in self._used if one.ago + age < dealt.period]
            return dealt.deal(tasks, self._workers, used)

    def told(self, used: Sequence[Used]) -> None:
        """What the tasks have used, when all have ended. What they were dealt and did not use is free."""
        with self._turn:
            self._used, self._told_at = used, self._clock()
            self._all_is_dealt = False
            self._turn.notify_all()

    @contextmanager
    def lent(self, is_over: Callable[[], bool]) -> Iterator[Share]:
        """Until the block ends, one part for one who asks beside the tasks. Raises `InterruptedError` when it is over
        before a batch is."""
        with self._turn:
            self._is_wanted = True
            while self._all_is_dealt and not is_over():
                self._turn.wait(_LOOKS)
            self._is_wanted = False
            if self._all_is_dealt:
                raise InterruptedError("the job ends before its batch has")
            self._lent_until = math.inf
        try:
            yield self.contract.lent.spent
        finally:
            with self._turn:
                self._lent_until = self._clock() + self.contract.period
