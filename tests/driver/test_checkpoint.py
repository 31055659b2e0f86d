"""Spark's notes of its batches, however they are written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.driver.checkpoint import Checkpoint

NOTES = "spark.sql.streaming.checkpointFileManagerClass"


@pytest.fixture
def usual_notes(spark: SparkSession) -> Iterator[None]:
    before = spark.conf.get(NOTES, None)
    spark.conf.unset(NOTES)
    yield
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
        written = {file.name for file in (tmp_path / kind).iterdir()}
        assert {name.replace("1", "N") for name in written if "1" in name} == {
            name.replace("2", "N") for name in written if "2" in name
        }


def test_only_notes_on_a_local_disk_are_written_another_way_and_never_against_the_settings(
    spark: SparkSession, usual_notes: None, tmp_path: Path
) -> None:
    Checkpoint(spark, "hdfs://127.0.0.1:9/checkpoint").choose_how_spark_writes(spark)
    assert spark.conf.get(NOTES, None) is None
    spark.conf.set(NOTES, "one.of.the.users.own")
    Checkpoint(spark, str(tmp_path)).choose_how_spark_writes(spark)
    assert spark.conf.get(NOTES) == "one.of.the.users.own"
