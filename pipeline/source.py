"""1 Kafka topics to raw messages: Spark plans the offsets, the worker sees windows of messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.columns import KAFKA, MESSAGE
from pipeline.config.settings import KafkaSettings, Settings, WorkerSettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LAST_MOMENT = pa.scalar(253_402_300_799_999_999, KAFKA.field("timestamp").type)  # 9999-12-31 23:59:59.999999


def read_stream(spark: SparkSession, settings: Settings) -> DataFrame:
    """The stream of raw messages, not yet one byte of it read."""
    stream = spark.readStream.format("kafka").options(**_options(settings.kafka))
    stream = stream.option("maxOffsetsPerTrigger", settings.job.max_offsets_per_trigger)
    stream = stream.option("minPartitions", spark.sparkContext.defaultParallelism)
    return stream.load().select(*KAFKA.names)


def _options(kafka: KafkaSettings) -> dict[str, str]:
    topics = {"subscribePattern": kafka.topic_pattern} if kafka.topic_pattern else {"subscribe": ",".join(kafka.topics)}
    return {
        "kafka.bootstrap.servers": kafka.bootstrap,
        **topics,
        "startingOffsets": kafka.starting_offsets,
        "failOnDataLoss": "true",  # offsets that Kafka has already deleted are a loss: stop and say so
        "kafka.max.partition.fetch.bytes": str(8 << 20),  # a window in a few fetches instead of hundreds
        # Having read what is there, the client asks for more, and a broker lets that question wait for new messages.
        # Behind it, on the same connection, waits the one with which Spark ends each read (which offsets are there?):
        # half a second in every batch by Kafka's default. Between batches nothing is asked: an idle broker stays idle.
        "kafka.fetch.max.wait.ms": "1",
        **_of_planning(kafka),
        **{f"kafka.{name}": value for name, value in kafka.java.items()},
    }


def _of_planning(kafka: KafkaSettings) -> dict[str, str]:
    """How long Spark waits for an answer where it only plans. Who sets one of these times sets them all.

    By Kafka's defaults a question to a leader that has just died, or hangs, is given up after a minute, and so nothing
    is read for a minute though others lead after seconds. A third of it, asked three times as often, is as patient.
    """
    times = {"request.timeout.ms": "10000", "default.api.timeout.ms": "20000"}
    if kafka.reader != "direct" or times.keys() & kafka.java.keys():
        return {}
    return {"fetchOffset.numRetries": "9", **{f"kafka.{name}": value for name, value in times.items()}}


def windows(messages: Iterable[pa.RecordBatch], limits: WorkerSettings) -> Iterator[pa.Table]:
    """Messages in windows as large as the settings allow: the larger, the more sales share a look-up."""
    held: list[pa.RecordBatch] = []
    sales = size = 0
    for some in messages:
        if not len(some):
            continue
        if held and (sales + len(some) > limits.window_sales or size + some.nbytes > limits.window_bytes):
            yield _window(held)
            held, sales, size = [], 0, 0
        held.append(some)
        sales += len(some)
        size += some.nbytes
    if held:
        yield _window(held)


def _window(messages: list[pa.RecordBatch]) -> pa.Table:
    table = pa.Table.from_batches(messages).cast(KAFKA)
    # Kafka takes any number for a time. Behind this one neither Delta nor Python knows a date.
    bounded = pc.if_else(pc.greater(table["timestamp"], LAST_MOMENT), LAST_MOMENT, table["timestamp"])
    table = table.set_column(table.schema.get_field_index("timestamp"), KAFKA.field("timestamp"), bounded)
    return table.rename_columns([*MESSAGE]).combine_chunks()
