"""Two ways to read what Spark's Kafka source has planned. Checkpoint, batches and messages are the same both ways.

`spark`: the source's own scan, Kafka through the JVM and Arrow to the workers. `direct`: the workers fetch the planned
ranges themselves, and the scan is planned but never run. `pipeline/kafka/ranges.py` says where the plan is had from.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

from pipeline.config.settings import KafkaSettings, Settings, WorkerSettings
from pipeline.driver.checkpoint import Checkpoint
from pipeline.driver.cluster import Messages, Tasks, WithNumbers, WithRows
from pipeline.driver.load import Load
from pipeline.errors import WarehouseRefused
from pipeline.kafka.client import client_of
from pipeline.kafka.ranges import Range, dealt_out, planned

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pipeline.driver.origin import Ends


class Reader(Protocol):
    def tasks(self, messages: DataFrame, batch: int) -> Tasks:
        """A micro-batch, `messages` as Spark hands it over, dealt out to the workers: no more tasks than slots.

        More would only make smaller windows and more files. Nor more than the master's load contract has shares for.
        """
        ...

    def idle(self) -> Tasks:
        """A task without messages for each slot: with these the workers are made ready."""
        ...


def make_reader(settings: Settings, spark: SparkSession, checkpoint: Checkpoint) -> Reader:
    load = Load.of(settings, spark.sparkContext)
    if settings.kafka.reader == "spark":
        return SparksOwn(spark, load.tasks)
    return Direct(spark, checkpoint, settings.kafka, settings.worker, load.tasks)


class SparksOwn:
    """What Spark's source reads goes to the workers as it comes."""

    def __init__(self, spark: SparkSession, slots: int) -> None:
        self._spark, self._slots = spark, slots

    def tasks(self, messages: DataFrame, batch: int) -> Tasks:
        return WithRows(messages.coalesce(self._slots), self._slots)

    def idle(self) -> Tasks:
        return WithRows(self._spark.range(0, self._slots, 1, self._slots), self._slots)


class Direct:
    """Each task fetches the ranges that are meant for it."""

    def __init__(
        self, spark: SparkSession, checkpoint: Checkpoint, kafka: KafkaSettings, limits: WorkerSettings, slots: int
    ) -> None:
        self._context, self._slots = spark.sparkContext, slots
        self._checkpoint, self._kafka, self._limits = checkpoint, kafka, limits
        self._last: tuple[int, Ends] | None = None  # the batch before, and where it ended

    def tasks(self, messages: DataFrame, batch: int) -> Tasks:
        begin, end = self._begin(batch), self._known(batch)
        dealt = dealt_out(planned(begin, end), self._slots) or [[]]
        self._last = batch, end
        return WithNumbers(self._context, len(dealt), partial(_fetched, dealt, self._kafka, self._limits))

    def idle(self) -> Tasks:
        return WithNumbers(self._context, self._slots, _nothing)

    def _begin(self, batch: int) -> Ends:
        if self._last is not None and self._last[0] == batch - 1:
            return self._last[1]
        return self._known(batch - 1 if batch else None)

    def _known(self, batch: int | None) -> Ends:
        ends = self._checkpoint.ends(batch)
        if ends is None:
            which = "the first batch begins" if batch is None else f"batch {batch} ends"
            raise WarehouseRefused(
                f"the checkpoint {self._checkpoint.path} does not say where {which}: a part of it was deleted. Restore "
                f'it whole; or let Spark\'s source read once, kafka.reader = "spark".'
            )
        return ends


def warm(settings: Settings) -> None:
    """In a worker: have at hand what the first read needs."""
    if settings.kafka.reader == "direct":
        from pipeline.kafka import reader as reader
        from pipeline.kafka.cluster import cluster_of

        cluster_of(client_of(settings.kafka.bootstrap, settings.kafka.java)).look(settings.kafka.topics)


def _nothing(task: int) -> Messages:
    return iter(())


def _fetched(ranges: Sequence[list[Range]], kafka: KafkaSettings, limits: WorkerSettings, task: int) -> Messages:
    """In a worker, which reads for itself how to log in."""
    from pipeline.kafka.cluster import cluster_of
    from pipeline.kafka.reader import messages

    return messages(ranges[task], cluster_of(client_of(kafka.bootstrap, kafka.java)), limits)
