"""Spark's own way: a stream-static join with the tables read once over JDBC, cached, and broadcast; no sink.

Without `.cache()` each micro-batch would read the whole table again. So this peer looks nothing up: it holds all master
rows in the heap, reads them before the first sale, and never sees a later change of theirs.
"""

from __future__ import annotations

import os
import sys

import pyarrow as pa
import pyarrow.dataset as ds
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import broadcast, col, from_json

from pipeline.config.contracts import DimensionContract
from pipeline.java import jars, runtime
from tests.benchmarks.peers import progress
from tests.benchmarks.peers.drivers import driver
from tests.benchmarks.peers.task import Peer, Task, key_of

_HEAP = "6g"
_SALE = (
    "sale_id STRING, sold_at TIMESTAMP, store_code STRING, product_code STRING, customer_number BIGINT, quantity INT, "
    "unit_price DECIMAL(18, 2), currency STRING"
)


def session(task: Task) -> SparkSession:
    os.environ.update(runtime.environment())
    os.environ.setdefault("JAVA_HOME", str(runtime.java_home()))
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    classes = [*jars.for_spark(), *driver(task).jars]
    settings = {
        "spark.driver.memory": _HEAP,
        "spark.driver.extraClassPath": ":".join(map(str, classes)),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": task.cores,
        "spark.ui.enabled": "false",
    }
    return SparkSession.builder.master(f"local[{task.cores}]").config(map=settings).getOrCreate()


def sales(spark: SparkSession, task: Task) -> DataFrame:
    source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", task.bootstrap)
    source = source.option("subscribe", task.topic).option("startingOffsets", "earliest")
    messages = source.option("maxOffsetsPerTrigger", task.batch).load()
    return messages.select(from_json(col("value").cast("string"), _SALE).alias("sale")).select("sale.*")


def rows(spark: SparkSession, task: Task, contract: DimensionContract) -> DataFrame:
    """A master table, read now: its key as the sale has it, then what the job of Millrace reads of it, too."""
    jdbc = driver(task)
    options = {
        "url": jdbc.url, "driver": jdbc.name, "user": task.user, "password": task.password, "dbtable": contract.table,
        "fetchsize": "10000",
    }  # fmt: skip
    [key] = contract.natural_key
    read = spark.read.format("jdbc").options(**options).load()
    named = {contract.surrogate_key: key_of(contract.name), contract.updated_at: f"{contract.name}_updated_at"}
    others = (contract.surrogate_key, contract.updated_at, *contract.attributes)
    wanted = [col(key.column).alias(key.field), *(col(name).alias(named.get(name, name)) for name in others)]
    cached = read.select(*wanted).cache()
    cached.count()
    return cached


def main(task: Task) -> None:
    spark = session(task)
    spark.sparkContext.setLogLevel("ERROR")
    joined = sales(spark, task)
    for contract in task.contracts:
        joined = joined.join(broadcast(rows(spark, task, contract)), contract.natural_key[0].field, "left")
    if task.keep:
        wanted = joined.select("sale_id", *map(key_of, task.dimensions))
        writer = wanted.writeStream.format("parquet").option("path", str(task.folder / "answer"))
    else:
        writer = joined.writeStream.format("noop")
    writer.option("checkpointLocation", str(task.folder / "checkpoint")).start().awaitTermination()


def answer(task: Task) -> pa.Table:
    return ds.dataset(task.folder / "answer", format="parquet", exclude_invalid_files=True).to_table()


PEER = Peer("spark", __name__, lambda task: progress.committed(task.folder / "checkpoint"), answer)

if __name__ == "__main__":
    main(Task.read(sys.argv[1]))
