"""The load contract over the batches of a job: the driver deals out shares with each, and takes back what is unused."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pipeline.config.settings import MasterData
from pipeline.master.share import Contract, Share, Used

if TYPE_CHECKING:
    from pyspark import SparkContext


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
    """

    def __init__(
        self, contract: Contract, tasks: int, workers: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`tasks` of a batch; `workers` that there may be, idle ones too, each with connections of its own."""
        self.contract, self.tasks = contract, tasks
        self._workers, self._clock = workers, clock
        self._used: Sequence[Used] = ()
        self._told_at = 0.0

    @classmethod
    def of(cls, settings: MasterData, spark: SparkContext) -> Load:
        contract, slots = Contract.of(settings), spark.defaultParallelism
        tasks = contract.tasks(slots)
        # One executor hands its idle workers out first; which of several gets a task is not known.
        is_local = re.fullmatch(r"local(\[.*\])?", str(spark.master)) is not None
        return cls(contract, tasks, tasks if is_local else slots)

    def shares(self, tasks: int) -> list[Share]:
        """For the tasks of the next batch, from now on."""
        age = self._clock() - self._told_at
        used = [replace(one, ago=one.ago + age) for one in self._used if one.ago + age < self.contract.period]
        return self.contract.deal(tasks, self._workers, used)

    def told(self, used: Sequence[Used]) -> None:
        """What the tasks have used, when all have ended. What they were dealt and did not use is free."""
        self._used, self._told_at = used, self._clock()
