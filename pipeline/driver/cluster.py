"""A micro-batch on Spark's Python workers: the messages go there, one small answer of each task comes back.

Workers keep their joins between micro-batches as soft state: Spark may end a worker at any time, and a new one starts
with an empty cache and asks the master again.
"""

from __future__ import annotations

import os
import socket
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

import pyarrow as pa

from pipeline.answers.task import TaskAnswer, decode, encode

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession

Messages = Iterator[pa.RecordBatch]

_ANSWER = "answer"


class Tasks(Protocol):
    """A micro-batch, dealt out to the workers."""

    @property
    def tasks(self) -> int:
        """So many at most; they are numbered."""
        ...

    def run(self, work: Callable[[Messages], bytes]) -> list[bytes]:
        """What `work` makes of each task's messages, in its worker."""
        ...


@dataclass(frozen=True)
class WithRows:
    """Each task is handed its messages by Spark."""

    rows: DataFrame
    tasks: int

    def run(self, work: Callable[[Messages], bytes]) -> list[bytes]:
        def task(messages: Messages) -> Iterator[pa.RecordBatch]:
            answer = work(messages)
            _leave_nothing(messages)
            yield pa.RecordBatch.from_pydict({_ANSWER: pa.array([answer], pa.binary())})

        return [bytes(row[_ANSWER]) for row in self.rows.mapInArrow(task, f"{_ANSWER} binary").collect()]


@dataclass(frozen=True)
class WithNumbers:
    """Each task is handed its number, and finds its messages by that. No query is planned for it, no row changes its
    form: that is half of what an empty micro-batch takes."""

    context: SparkContext
    tasks: int
    messages: Callable[[int], Messages]

    def run(self, work: Callable[[Messages], bytes]) -> list[bytes]:
        messages_of = self.messages  # a task takes no context along

        def task(number: int, nothing: Iterable[object]) -> Iterator[bytes]:
            _acknowledge_the_command()
            answer = work(messages_of(number))
            _leave_nothing(nothing)
            yield answer

        return list(self.context.parallelize([], self.tasks).mapPartitionsWithIndex(task).collect())


def on_workers(tasks: Tasks, work: Callable[[Messages], TaskAnswer]) -> TaskAnswer:
    """Run `work` over the messages of each task in Spark's Python workers and add up the answers."""
    return sum(map(decode, tasks.run(lambda messages: encode(work(messages)))), TaskAnswer())


def warm_workers(idle: Tasks, warm: Callable[[], None]) -> None:
    """Start Spark's Python workers as `on_workers` will use them, so that the first batch finds them ready."""

    def made_ready(messages: Messages) -> bytes:
        warm()
        return b""

    idle.run(made_ready)


def end_tasks(spark: SparkSession, seconds: float) -> None:
    """Cancel what the workers do, and wait until they have left it, at most so long: a task that ends while Spark does
    is told with two tracebacks."""
    spark.sparkContext.cancelAllJobs()
    context = cast(Any, spark.sparkContext._jsc).sc()
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and any(
        executor.numRunningTasks() for executor in context.statusTracker().getExecutorInfos()
    ):
        time.sleep(0.05)


def _acknowledge_the_command() -> None:
    """Spark sends a task's command, and eight bytes behind it the end of its input. TCP keeps those back until the
    command is acknowledged, which the system does 40 ms later unless it is asked to: no task would be shorter.

    Which of a worker's connections is Spark's is Spark's secret; to ask it of the others changes nothing for them.
    """
    if not hasattr(socket, "TCP_QUICKACK"):  # Linux has it
        return
    for number in map(int, os.listdir("/proc/self/fd")):
        with suppress(OSError):  # the listing's own is gone by now
            if stat.S_ISSOCK(os.fstat(number).st_mode):
                with socket.socket(fileno=os.dup(number)) as connection:
                    if connection.family in (socket.AF_INET, socket.AF_INET6):
                        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)


def _leave_nothing(rows: Iterable[object]) -> None:
    """A worker that leaves of its input so much as the end ends too, and its joins with it."""
    for _ in rows:
        pass
