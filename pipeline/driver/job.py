"""The job: settings in, a streaming query running until it is told to stop."""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.config.settings import Settings
from pipeline.driver import continuity, preflight
from pipeline.driver.changelog import ChangeLog
from pipeline.driver.checkpoint import Checkpoint
from pipeline.driver.cluster import end_tasks, warm_workers
from pipeline.driver.feed import FollowedFeed
from pipeline.driver.healing import Healing
from pipeline.driver.lineage import Lineage
from pipeline.driver.load import Load
from pipeline.driver.query import RunningQuery
from pipeline.driver.readers import Reader, make_reader
from pipeline.driver.session import open_session
from pipeline.driver.stop import StoppedEarly, StopSignal
from pipeline.driver.topics import Topics
from pipeline.driver.worker import warm
from pipeline.master.open import open_feed
from pipeline.master.share import Contract
from pipeline.plan import Plan, resolve
from pipeline.warehouse import places
from pipeline.warehouse.merging import Merging
from pipeline.warehouse.warehouse import make_warehouse
from pipeline.watch.publish import Metrics
from pipeline.watch.published import served

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("millrace.job")

_LONGEST_WARMING = 10.0  # seconds


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
    metrics = Metrics()
    with served(metrics, settings.metrics) as address, _session(settings, stop) as spark:
        warehouse = make_warehouse(settings.warehouse, plan.facts, [plan.rejects], settings.job.name, spark)
        checkpoint = Checkpoint(spark, settings.job.checkpoint)
        reader, load = make_reader(settings, spark, checkpoint), Load.of(settings, spark.sparkContext)
        plan = replace(plan, workers=load.tasks)
        metrics.contract(Contract.of(settings.master).allowed)
        with ExitStack() as held, _warming(spark, reader, plan):
            with places.told(places.checkpoint(settings)):
                held.enter_context(checkpoint.held())
                checkpoint.take_torn_aside()
                warehouse.take_torn_aside()
                origin = continuity.require(checkpoint, settings, warehouse)
            continuity.require_topics(checkpoint, warehouse, topics, origin)
            warehouse.prepare()
            lineage = Lineage(checkpoint, topics, origin, plan.fingerprint)
            merging = Merging(settings.warehouse, metrics.merged)
            healing = Healing(plan, load, metrics)
            try:
                healing.start()
                with _feed(plan, metrics, healing) as changes:
                    beside = lineage, merging, healing, changes, load
                    query = RunningQuery(spark, plan, reader, warehouse, *beside, metrics)
                    query.run(stop, lambda: tell(address))
            finally:
                healing.close()
                merging.close()
                warehouse.close()


@contextmanager
def _feed(plan: Plan, metrics: Metrics, healing: Healing) -> Iterator[ChangeLog]:
    """What the master's feed tells, as long as the block runs; nothing if it is off."""
    master = plan.settings.master
    if master.feed == "off":
        yield ChangeLog()
        return
    feed = FollowedFeed(open_feed(master, plan.dimensions), metrics, master.feed != "auto", healing.heard)
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
def _session(settings: Settings, stop: StopSignal) -> Iterator[SparkSession]:
    spark = open_session(settings)
    try:
        yield spark
    finally:
        stop.starting = False
        spark.stop()
