"""The Spark session: made here for `millrace run`, taken as given under spark-submit."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pipeline.config.settings import Settings
from pipeline.driver import classes
from pipeline.errors import BadSetting
from pipeline.java import jars, runtime
from pipeline.warehouse import hadoop
from pipeline.watch import logs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_OPTIONS = "spark.driver.extraJavaOptions"


def open_session(settings: Settings) -> SparkSession:
    """A session with Kafka and Delta on board."""
    from pyspark.sql import SparkSession

    os.environ.update(runtime.environment())
    os.environ.setdefault("JAVA_HOME", str(runtime.java_home()))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if not logs.whole:
        os.environ.setdefault("LOG4J_CONFIGURATION_FILE", logs.SPARKS_LINES.as_uri())
    local = settings.spark.master.startswith("local")
    if local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.appName(settings.job.name)
    own: dict[str, str] = {}
    submitted = "SPARK_ENV_LOADED" in os.environ  # set by spark-submit: master, memory and jars are its business
    if not submitted:
        builder = builder.master(settings.spark.master)
        builder = builder.config("spark.driver.memory", f"{settings.spark.driver_memory >> 20}m")
        own = _jars(settings, local)
        if local and (quick := classes.options()):
            own[_OPTIONS] = f"{quick} {settings.spark.conf.get(_OPTIONS, '')}".strip()
        builder = builder.config("spark.ui.enabled", "false")
        builder = builder.config("spark.ui.showConsoleProgress", "false")
        if local:
            # By the wall clock: when that is set forward, Spark would give up on the executor that it is itself.
            builder = builder.config("spark.storage.blockManagerHeartbeatTimeoutMs", "365d")
    for name, value in {**_conf(settings), **settings.spark.conf, **own}.items():
        builder = builder.config(name, value)
    with _deaf_to_sigterm():
        spark = builder.getOrCreate()
    _check_conf(spark)
    hadoop.configure(spark, settings)
    return spark


@contextmanager
def _deaf_to_sigterm() -> Iterator[None]:
    """Start Spark's JVM so that SIGTERM does not end it: systemd and `timeout` send it to the whole group.

    The job ends the batch in hand first. Spark ends with its standard input, which closes when this process ends, in
    any way. PySpark has no parameter for that, so what it starts processes with is exchanged for the time of the start.
    """
    from pyspark import java_gateway

    gateway: Any = java_gateway
    start = gateway.Popen
    started: list[Any] = []

    def start_deaf(*arguments: Any, preexec_fn: Callable[[], None] | None = None, **options: Any) -> Any:
        def before() -> None:
            if preexec_fn:
                preexec_fn()
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # what is ignored stays ignored in the program started

        started.append(start(*arguments, preexec_fn=before, **options))
        return started[-1]

    gateway.Popen = start_deaf
    try:
        yield
    except BaseException:
        # A JVM interrupted before it is connected to this process would wait for ever.
        for jvm in started:
            jvm.kill()
        raise
    finally:
        gateway.Popen = start


def _jars(settings: Settings, local: bool) -> dict[str, str]:
    """Ours before the user's own. On the class path they stay where they lie: spark.jars copies each at every start."""
    name, between = ("spark.driver.extraClassPath", os.pathsep) if local else ("spark.jars", ",")
    ours = [str(jar) for jar in jars.for_spark(settings.warehouse.path, settings.job.checkpoint)]
    if damaged := [jar for jar in ours if between in jar]:
        raise BadSetting(
            f"{damaged[0]}: Java takes the {between} for the end of a path. Set MILLRACE_CACHE to another."
        )
    return {name: between.join([*ours, *filter(None, [settings.spark.conf.get(name)])])}


def _check_conf(spark: SparkSession) -> None:
    """Spark reads its SQL settings late and then names the wrong one only in the innermost cause."""
    from pyspark.errors.exceptions.captured import CapturedException

    try:
        spark._jsparkSession.sessionState()
    except CapturedException as error:
        cause = error._origin
        while cause is not None and cause.getCause() is not None:
            cause = cause.getCause()
        raise BadSetting(f"Spark refuses its settings: {cause.getMessage() if cause else error}") from error


def _conf(settings: Settings) -> dict[str, str]:
    return {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        # Delta rebuilds a table's state with 50 shuffle partitions otherwise: seconds for a small table.
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.session.timeZone": "UTC",
        # Tables are addressed by path; Spark's own warehouse folder must not appear in the working directory.
        "spark.sql.warehouse.dir": f"{tempfile.gettempdir()}/millrace-spark-warehouse",
        # One Arrow batch should reach the worker as one piece of a window, not as a thousand.
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(min(settings.worker.window_sales, 32_768)),
        "spark.sql.execution.arrow.maxBytesPerBatch": f"{int(settings.worker.window_bytes)}b",
        "spark.sql.execution.arrow.pyspark.validateSchema.enabled": "true",
        # Changing partitions between batches would scatter what the workers remember.
        "spark.sql.adaptive.enabled": "false",
        "spark.redaction.regex": "(?i)secret|passwo?r?d|pwd|token|credential|jaas|access[.]?key",
        "spark.python.worker.faulthandler.enabled": "true",
        # A task that runs twice at once would ask the master twice.
        "spark.speculation": "false",
        "spark.sql.streaming.kafka.useDeprecatedOffsetFetching": "false",
    }
