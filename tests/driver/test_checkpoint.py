"""Spark's notes of its batches, however they are written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipeline.driver.checkpoint import Checkpoint

NOTES = "spark.sql.streaming.checkpointFileManagerClass"


def on_disk(spark: SparkSession) -> Any:
    """Hadoop's local file system: one for all who ask."""
    hadoop: Any = spark._jvm.org.apache.hadoop.fs  # type: ignore[union-attr]
    return hadoop.FileSystem.getLocal(spark._jsc.hadoopConfiguration())


@pytest.fixture
def usual_notes(spark: SparkSession) -> Iterator[None]:
    before = spark.conf.get(NOTES, None)
    spark.conf.unset(NOTES)
    on_disk(spark).setWriteChecksum(True)
    yield
    on_disk(spark).setWriteChecksum(False)
    spark.conf.unset(NOTES) if before is None else spark.conf.set(NOTES, before)


def one_batch(spark: SparkSession, folder: Path) -> list[int]:
    seen: list[int] = []
    numbers = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    query = numbers.writeStream.foreachBatch(lambda rows, batch: seen.append(batch))
    query.option("checkpointLocation", str(folder)).trigger(once=True).start().awaitTermination()
    return seen


def test_a_checkpoint_is_gone_on_from_whichever_way_its_notes_were_written(
    spark: SparkSession, usual_notes: None, tmp_path: Path
) -> None:
    assert one_batch(spark, tmp_path) == [0]
    Checkpoint(spark, str(tmp_path)).choose_how_spark_writes(spark)
    assert one_batch(spark, tmp_path) == [1]
    spark.conf.unset(NOTES)
    assert one_batch(spark, tmp_path) == [2]
    for kind in ("offsets", "commits"):
        assert {file.name for file in (tmp_path / kind).glob("[!.]*")} == {"0", "1", "2"}


def test_a_note_written_without_a_checksum_is_not_held_against_an_older_one(
    spark: SparkSession, usual_notes: None, tmp_path: Path
) -> None:
    assert one_batch(spark, tmp_path) == [0]
    checkpoint = Checkpoint(spark, str(tmp_path))
    checkpoint.choose_how_spark_writes(spark)
    checkpoint.finish(0)
    checkpoint.plan(1, checkpoint.ends(0) or {})
    assert one_batch(spark, tmp_path) == [1]
    assert {file.name for file in (tmp_path / "commits").iterdir()} == {"0", "1"}


def test_only_notes_on_a_local_disk_are_written_another_way_and_never_against_the_settings(
    spark: SparkSession, usual_notes: None, tmp_path: Path
) -> None:
    Checkpoint(spark, "hdfs://127.0.0.1:9/checkpoint").choose_how_spark_writes(spark)
    assert spark.conf.get(NOTES, None) is None
    spark.conf.set(NOTES, "one.of.the.users.own")
    Checkpoint(spark, str(tmp_path)).choose_how_spark_writes(spark)
    assert spark.conf.get(NOTES) == "one.of.the.users.own"
