"""The job: settings in, a streaming query running until it is told to stop."""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException
from py4j.protocol import Py4JJavaError

from pipeline import flow, source
from pipeline.answers.task import TaskAnswer
from pipeline.config.settings import Settings
from pipeline.driver import continuity, ended, preflight
from pipeline.driver.changelog import ChangeLog
from pipeline.driver.checkpoint import Checkpoint
from pipeline.driver.cluster import end_tasks, on_workers, warm_workers
from pipeline.driver.feed import FollowedFeed
from pipeline.driver.lineage import Lineage
from pipeline.driver.readers import Reader, make_reader
from pipeline.driver.session import open_session
from pipeline.driver.stop import StoppedEarly, StopSignal
from pipeline.driver.topics import Topics, end_offsets
from pipeline.driver.worker import warm, work_of
from pipeline.errors import MillraceError
from pipeline.master.open import open_feed
from pipeline.plan import Plan, resolve
from pipeline.warehouse import places
from pipeline.warehouse.merging import Merging
from pipeline.warehouse.port import Warehouse
from pipeline.warehouse.warehouse import make_warehouse
from pipeline.watch.publish import Metrics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger("millrace.job")

_LONGEST_WARMING = 10.0  # seconds
_LONGEST_BATCH = 60.0  # seconds a stop waits for the batch in hand; then it is cut off, and replayed by the next start


def run(settings: Settings, ready_file: Path | None = None) -> None:
    """Run until all is worked off (`available-now`), a signal comes, or the query fails.

    `ready_file` is there from the moment the query runs until the job ends, and says as JSON where its metrics are.
    """
    stop = StopSignal()
    stop.listen()
    try:
        with _kept_while_running(ready_file) as tell:
            _run(settings, stop, tell)
    except (StoppedEarly, Exception):
        if not stop.interrupted:  # PySpark may meet the interruption with an error of its own
            raise
        log.info("stopped while it started: nothing was read, nothing written")


@contextmanager
def _kept_while_running(ready_file: Path | None) -> Iterator[Callable[[str], None]]:
    if ready_file is None:
        yield lambda metrics: None
        return
    ready_file.unlink(missing_ok=True)  # of a job that was killed

    def tell(metrics: str) -> None:
        unfinished = ready_file.with_name(f"{ready_file.name}.{os.getpid()}")
        unfinished.write_text(json.dumps({"pid": os.getpid(), "metrics": metrics}))
        unfinished.replace(ready_file)

    try:
        yield tell
    finally:
        ready_file.unlink(missing_ok=True)


def _run(settings: Settings, stop: StopSignal, tell: Callable[[str], None]) -> None:
    plan = resolve(settings)
    places.refuse_unusable(settings)
    preflight.check(plan)
    topics = Topics(settings.kafka)
    with _metrics(settings) as (metrics, address), _session(settings, stop) as spark:
        warehouse = make_warehouse(settings.warehouse, plan.facts, [plan.rejects], settings.job.name, spark)
        checkpoint = Checkpoint(spark, settings.job.checkpoint)
        reader = make_reader(settings, spark, checkpoint)
        with ExitStack() as held, _warming(spark, reader, plan):
            with places.told(places.checkpoint(settings)):
                held.enter_context(checkpoint.held())
                origin = continuity.require(checkpoint, settings, warehouse)
            continuity.require_topics(checkpoint, warehouse, topics, origin)
            warehouse.prepare()
            lineage, merging = Lineage(checkpoint, topics, origin), Merging(settings.warehouse, metrics.merged)
            try:
                with _feed(plan, metrics) as changes:
                    query = RunningQuery(spark, plan, reader, warehouse, lineage, merging, changes, metrics)
                    query.run(stop, lambda: tell(address))
            finally:
                merging.close()
                warehouse.close()


@contextmanager
def _feed(plan: Plan, metrics: Metrics) -> Iterator[ChangeLog]:
    """What the master's feed tells, as long as the block runs; nothing if it is off."""
    master = plan.settings.master
    if master.feed == "off":
        yield ChangeLog()
        return
    feed = FollowedFeed(open_feed(master, plan.dimensions), metrics, is_needed=master.feed != "auto")
    feed.start()
    try:
        yield feed.log
    finally:
        feed.close()


@contextmanager
def _warming(spark: SparkSession, reader: Reader, plan: Plan) -> Iterator[None]:
    """Workers are made ready beside what the driver still has to do; nothing depends on it."""
    thread = threading.Thread(target=_warm_up, args=(reader, plan), daemon=True)
    thread.start()
    try:
        yield
    finally:
        if thread.is_alive():  # the job has ended already: Spark must not end while this still uses it
            end_tasks(spark, _LONGEST_WARMING)
            thread.join(_LONGEST_WARMING)


def _warm_up(reader: Reader, plan: Plan) -> None:
    try:
        warm_workers(reader.idle(), partial(warm, plan))
    except Exception as error:  # noqa: BLE001 the first batch will meet it too, and tell it
        log.debug("workers were not made ready beforehand: %s", error)


@contextmanager
def _metrics(settings: Settings) -> Iterator[tuple[Metrics, str]]:
    metrics = Metrics()
    port = metrics.serve(settings.metrics.host, settings.metrics.port)
    address = f"http://{settings.metrics.host}:{port}/metrics"
    log.info("metrics on %s", address)
    try:
        yield metrics, address
    finally:
        metrics.close()


@contextmanager
def _session(settings: Settings, stop: StopSignal) -> Iterator[SparkSession]:
    spark = open_session(settings)
    try:
        yield spark
    finally:
        stop.starting = False
        spark.stop()


class RunningQuery:
    """The running query: from Kafka's offsets to one commit a batch."""

    def __init__(
        self,
        spark: SparkSession,
        plan: Plan,
        reader: Reader,
        warehouse: Warehouse,
        lineage: Lineage,
        merging: Merging,
        changes: ChangeLog,
        metrics: Metrics,
    ) -> None:
        self._spark, self._plan, self._reader, self._warehouse = spark, plan, reader, warehouse
        self._lineage, self._merging, self._changes, self._metrics = lineage, merging, changes, metrics
        self._in_batch = threading.Lock()
        self._stopped = False
        self._failure: Exception | None = None  # of a batch, before Spark wraps it

    def run(self, stop: StopSignal, ready: Callable[[], None]) -> None:
        self._metrics.skipped(self._lineage.origin.skipped)
        before = self._warehouse.last_batch()
        query = self._start()
        stop.starting = False
        self._metrics.ready()
        ready()
        job = self._plan.settings.job
        log.info("running: application %s, checkpoint %s", job.name, job.checkpoint)
        topics, began_at = self._lineage.topics, continuity.next_offsets(self._lineage.checkpoint, before)
        while query.isActive and not stop.wait(0.5):
            try:
                began_at = began_at or topics.start()
                self._metrics.backlog(topics.backlog(end_offsets(query.lastProgress) or began_at))
            except KafkaException as error:
                log.warning("backlog not known: %s", error)
        if query.isActive:
            self._stop(query)
        elif (failure := query.exception()) is not None:
            self._explain(failure)

    def _start(self) -> StreamingQuery:
        job = self._plan.settings.job
        messages = source.read_stream(self._spark, self._plan.settings)
        writer = messages.writeStream.foreachBatch(self._on_batch).option("checkpointLocation", job.checkpoint)
        trigger = (
            {"availableNow": True}
            if job.available_now
            else {"processingTime": f"{round(job.period * 1000)} milliseconds"}
        )
        try:
            return writer.trigger(**trigger).start()
        except Py4JJavaError as error:
            raise ended.of_query(error, None, self._plan.settings) from error

    def _on_batch(self, messages: DataFrame, batch: int) -> None:
        with self._in_batch:
            if self._stopped:
                raise InterruptedError("the job was stopped before this batch began; the next start replays it")
            try:
                flow.one_batch(
                    batch,
                    workers=lambda: self._on_workers(messages, batch),
                    warehouse=self._warehouse,
                    rejects_table=self._plan.rejects.name,
                    lineage=self._lineage,
                    published=self._published,
                )
            except Exception as error:
                self._failure = error
                self._metrics.batch_failed(ended.kind(error))
                raise

    def _published(self, answer: TaskAnswer, committed_at: float, batch: int) -> None:
        self._metrics.published(answer, committed_at, batch)
        self._merging.committed(self._plan.facts.name, len(answer.facts))
        self._merging.committed(self._plan.rejects.name, len(answer.rejects))

    def _on_workers(self, messages: DataFrame, batch: int) -> TaskAnswer:
        tasks, news = self._reader.tasks(messages, batch), self._changes.news()
        try:
            answer = on_workers(tasks, work_of(self._plan, batch, news))
        except Exception as error:
            raise (ended.of_worker(error) or error) from error
        self._changes.heard(answer.workers, news)
        answer.feed = news.place
        return answer

    def _explain(self, failure: Exception) -> None:
        """Raise what ended the query, as plainly as it can be told."""
        own = self._failure if isinstance(self._failure, MillraceError) else None
        if own and not ended.about_topics(own):
            raise own
        # What Kafka has deleted is told best by asking Kafka itself.
        lineage = self._lineage
        with suppress(KafkaException):
            continuity.require_topics(lineage.checkpoint, self._warehouse, lineage.topics, lineage.origin)
        raise own or ended.of_query(failure, self._failure, self._plan.settings)

    def _stop(self, query: StreamingQuery) -> None:
        log.info("stopping: waiting for the batch in hand")
        finished = self._in_batch.acquire(timeout=_LONGEST_BATCH)
        self._stopped = True
        # Spark may have begun another batch already, and waits for it: let it go on, to find that the job is stopping.
        if finished:
            self._in_batch.release()
        query.stop()
