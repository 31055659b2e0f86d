"""The running query: from Kafka's offsets to one commit a batch."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException
from py4j.protocol import Py4JJavaError

from pipeline import flow, source
from pipeline.answers.task import TaskAnswer
from pipeline.driver import continuity, ended, preflight
from pipeline.driver.changelog import ChangeLog
from pipeline.driver.cluster import on_workers
from pipeline.driver.healing import Healing
from pipeline.driver.lineage import Lineage
from pipeline.driver.load import Load
from pipeline.driver.readers import Reader
from pipeline.driver.stop import StopSignal
from pipeline.driver.topics import end_offsets
from pipeline.driver.wallclock import WallClock
from pipeline.driver.worker import work_of
from pipeline.errors import MillraceError
from pipeline.master.open import keeping_to, open_master
from pipeline.news import News
from pipeline.plan import Plan
from pipeline.warehouse.merging import Merging
from pipeline.warehouse.port import Warehouse
from pipeline.watch.publish import Metrics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger("millrace.job")

_LONGEST_BATCH = 60.0  # seconds a stop waits for the batch in hand; then it is cut off, and replayed by the next start


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
        healing: Healing,
        changes: ChangeLog,
        load: Load,
        metrics: Metrics,
    ) -> None:
        self._spark, self._plan, self._reader, self._warehouse = spark, plan, reader, warehouse
        self._lineage, self._merging, self._healing = lineage, merging, healing
        self._changes, self._load, self._metrics = changes, load, metrics
        self._in_batch = threading.Lock()
        self._stopped = False
        self._clock = WallClock()
        self._altered: dict[str, int] = {}  # by dimension: how many alterations of its table are checked
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
            if (back := self._clock.set_back()) and not job.available_now:
                log.warning("the clock was set back by %.0f s, by which Spark waits: its query is begun anew", back)
                query = self._begun_anew(query)
            try:
                began_at = began_at or topics.start()
                self._metrics.backlog(topics.backlog(end_offsets(query.lastProgress) or began_at))
            except KafkaException as error:
                log.warning("backlog not known: %s", error)
        if query.isActive:
            log.info("stopping: waiting for the batch in hand")
            self._stop(query)
        elif (failure := query.exception()) is not None:
            self._explain(failure)

    def _start(self) -> StreamingQuery:
        job = self._plan.settings.job
        self._lineage.checkpoint.choose_how_spark_writes(self._spark)
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

    def _begun_anew(self, query: StreamingQuery) -> StreamingQuery:
        if not query.isActive:  # what has ended it is still to be told
            return query
        self._stop(query)
        self._stopped = False
        return self._start()

    def _on_batch(self, messages: DataFrame, batch: int) -> None:
        self._clock.look()
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
        self._healing.batch_committed(answer)

    def _on_workers(self, messages: DataFrame, batch: int) -> TaskAnswer:
        self._healing.batch_begins()
        self._lineage.checkpoint.keep(batch)
        tasks, news = self._reader.tasks(messages, batch), self._changes.news()
        self._check_altered(news)
        try:
            answer = on_workers(tasks, work_of(self._plan, batch, news, self._load.shares(tasks.tasks)))
        except Exception as error:
            raise (ended.of_worker(error) or error) from error
        self._load.told(answer.used)
        self._changes.heard(answer.workers, news)
        answer.feed = news.place
        return answer

    def _check_altered(self, news: News) -> None:
        """A master table that was altered must still be as its contract says, or a fact might be wrong."""
        server = self._plan.settings.master
        for name, times in news.altered.items():
            if times > self._altered.get(name, 0):
                contract = self._plan.dimensions[name]
                log.info("master table %s was altered: checking it against its contract", contract.table)
                with keeping_to(self._load.shares(tasks=1)[0], server) as told, open_master(server, contract) as master:
                    preflight.check_dimension(self._plan, name, master)
                self._load.told(told.used)
                self._altered[name] = times

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
        finished = self._in_batch.acquire(timeout=_LONGEST_BATCH)
        self._stopped = True
        # Spark may have begun another batch already, and waits for it: let it go on, to find that the job is stopping.
        if finished:
            self._in_batch.release()
        query.stop()
