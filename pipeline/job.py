"""The job: settings in, a streaming query running until it is told to stop."""

from __future__ import annotations

import logging
import re
import signal
import threading
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException

from pipeline import flow, source
from pipeline.checkpoint import Checkpoint, guard
from pipeline.enrich import on_workers
from pipeline.errors import MillraceError
from pipeline.joins import JOINS
from pipeline.master.mysql import MySqlMaster
from pipeline.metrics import Metrics
from pipeline.plan import Plan, resolve
from pipeline.session import open_session
from pipeline.settings import Settings
from pipeline.topics import Topics, end_offsets
from pipeline.warehouse.port import Warehouse
from pipeline.warehouse.two_step import make_warehouse
from pipeline.worker import make_join, work_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger("millrace.job")

_LONGEST_BATCH = 60.0  # seconds a stop waits for the batch in hand; then it is cut off, and replayed by the next start


class JobFailed(MillraceError):
    """The streaming query ended with an error; nothing is lost, the next start continues."""


def run(settings: Settings) -> None:
    """Run until all is worked off (`available-now`), a signal comes, or the query fails."""
    plan = resolve(settings)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    Topics(settings.kafka).check()
    _check_dimensions(plan)
    metrics = Metrics()
    port = metrics.serve(settings.metrics.host, settings.metrics.port)
    log.info("metrics on http://%s:%d/metrics", settings.metrics.host, port)
    spark = open_session(settings)
    warehouse = make_warehouse(settings.warehouse, plan.facts, [plan.rejects], settings.job.name, spark)
    try:
        warehouse.prepare()
        checkpoint = Checkpoint(spark, settings.job.checkpoint)
        guard(checkpoint, settings, warehouse)
        Stream(spark, plan, warehouse, checkpoint, metrics).run(stop)
    finally:
        warehouse.close()
        spark.stop()
        metrics.close()


def _check_dimensions(plan: Plan) -> None:
    """Refuse before the first batch what would fail in it: a table that is not as its contract, a budget too small."""
    for name, contract in plan.dimensions.items():
        log.info("checking dimension %s: master table %s", name, contract.table)
        master = MySqlMaster(plan.settings.master, contract)
        try:
            needs_index = JOINS[plan.settings.dimensions[name].algorithm].needs_index
            for remark in master.verify(needs_index):
                log.warning(remark)
            make_join(plan, name, master)
        finally:
            master.close()


class Stream:
    """The running query: from Kafka's offsets to one commit a batch."""

    def __init__(
        self, spark: SparkSession, plan: Plan, warehouse: Warehouse, checkpoint: Checkpoint, metrics: Metrics
    ) -> None:
        self._spark, self._plan, self._warehouse = spark, plan, warehouse
        self._checkpoint, self._metrics = checkpoint, metrics
        self._in_batch = threading.Lock()
        self._stopped = False

    def run(self, stop: threading.Event) -> None:
        before = self._checkpoint.offsets()
        query = self._start()
        self._metrics.ready()
        log.info("running: application %s, checkpoint %s", self._plan.settings.job.name, self._checkpoint.path)
        topics = Topics(self._plan.settings.kafka)
        began_at: dict[str, dict[str, int]] = {}
        while query.isActive and not stop.wait(0.5):
            try:
                began_at = began_at or before or topics.start()
                self._metrics.backlog(topics.backlog(end_offsets(query.lastProgress) or began_at))
            except KafkaException as error:
                log.warning("backlog not known: %s", error)
        if query.isActive:
            self._stop(query)
        elif query.exception() is not None:
            raise JobFailed(_sentence(query.exception()))

    def _start(self) -> StreamingQuery:
        job = self._plan.settings.job
        messages = source.read_stream(self._spark, self._plan.settings)
        writer = messages.writeStream.foreachBatch(self._on_batch).option("checkpointLocation", job.checkpoint)
        trigger = (
            {"availableNow": True}
            if job.available_now
            else {"processingTime": f"{round(job.period * 1000)} milliseconds"}
        )
        return writer.trigger(**trigger).start()

    def _on_batch(self, messages: DataFrame, batch: int) -> None:
        with self._in_batch:
            if self._stopped:
                raise InterruptedError("the job was stopped before this batch began; the next start replays it")
            # More tasks than slots would only make smaller windows and more files.
            in_slots = messages.coalesce(self._spark.sparkContext.defaultParallelism)
            try:
                flow.one_batch(
                    batch,
                    workers=lambda: on_workers(in_slots, work_of(self._plan, batch)),
                    warehouse=self._warehouse,
                    rejects_table=self._plan.rejects.name,
                    note={"checkpoint": self._checkpoint.id()},
                    published=self._metrics.published,
                )
            except Exception as error:
                self._metrics.batch_failed(_kind(error))
                raise

    def _stop(self, query: StreamingQuery) -> None:
        log.info("stopping: waiting for the batch in hand")
        finished = self._in_batch.acquire(timeout=_LONGEST_BATCH)
        self._stopped = True
        query.stop()
        if finished:
            self._in_batch.release()


def _kind(failure: BaseException) -> str:
    """The class of our own error, wherever in Spark's wrapping it stands; else Spark's."""
    ours = re.findall(r"pipeline\.[\w.]+\.([A-Z]\w+): ", str(failure))
    return str(ours[-1]) if ours else type(failure).__name__


def _sentence(failure: object) -> str:
    """Our own sentence out of a failure that came through Spark, a worker and two tracebacks."""
    text = str(failure)
    ours = re.findall(r"pipeline\.errors\.\w+: (.+)", text)
    if ours:
        return str(ours[-1])
    loss = re.search(r"[^\n]*(?:failOnDataLoss|OffsetOutOfRange|KAFKA_DATA_LOSS)[^\n]*", text)
    return loss[0] if loss else text
