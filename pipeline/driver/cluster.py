"""A micro-batch on Spark's Python workers: the messages go there, one small answer of each task comes back.

Workers keep their joins between micro-batches as soft state: Spark may end a worker at any time, and a new one starts
with an empty cache and asks the master again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from pipeline.answers.task import TaskAnswer, decode, encode

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ANSWER = "answer"


@dataclass(frozen=True)
class Tasks:
    """A micro-batch as Spark's tasks: the rows Spark hands to each, and how a worker has its messages from them."""

    rows: DataFrame
    messages: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def on_workers(tasks: Tasks, work: Callable[[Iterator[pa.RecordBatch]], TaskAnswer]) -> TaskAnswer:
    """Run `work` over the messages of each task in Spark's Python workers and add up the answers."""

    messages_of = tasks.messages  # a task takes no DataFrame along

    def task(partition: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield _row(encode(work(messages_of(partition))))

    answers = tasks.rows.mapInArrow(task, f"{_ANSWER} binary").collect()
    return sum((decode(bytes(row[_ANSWER])) for row in answers), TaskAnswer())


def warm_workers(spark: SparkSession, warm: Callable[[], None]) -> None:
    """Start Spark's Python workers as `on_workers` will use them, so that the first batch finds them ready."""

    def task(partition: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        warm()
        for _ in partition:  # a worker whose input is left over is not used again
            yield _row(b"")

    workers = spark.sparkContext.defaultParallelism
    spark.range(0, workers, 1, workers).mapInArrow(task, f"{_ANSWER} binary").collect()


def _row(answer: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({_ANSWER: pa.array([answer], pa.binary())})
