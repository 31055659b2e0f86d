"""An archive of the classes that Spark's JVM loads at every start: with it a job starts sooner.

Java makes it at the end of a JVM that has loaded them, and takes it only for the very jars it was made of (for others,
or another Java, it starts as without). So it lies in the private environment, beside PySpark's jars.
"""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

from pipeline.config.settings import Settings, SparkSettings
from pipeline.driver.classes import SILENT, archive
from pipeline.driver.session import open_session
from pipeline.errors import MillraceError
from pipeline.java import jars

_MADE_WITHIN = 180.0  # seconds
_KAFKAS = ("kafka-clients", "spark-sql-kafka")  # whose classes load when a query starts: all of them are named


class NoArchive(MillraceError):
    """The archive could not be made. Everything works without it, only later."""


def make() -> Path:
    """Start Spark once, let it do what every job does, and keep what it has loaded."""
    unfinished = archive().with_name(f"{archive().name}.{os.getpid()}")
    archive().unlink(missing_ok=True)  # a JVM that uses one does not make another
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pipeline.driver.make_classes", str(unfinished)],
            capture_output=True,
            text=True,
            timeout=_MADE_WITHIN,
        )
        if done.returncode or not unfinished.is_file():
            raise NoArchive(f"the archive of Spark's classes was not made: {done.stderr.strip() or 'no reason given'}")
        unfinished.replace(archive())
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoArchive(f"the archive of Spark's classes was not made: {error}") from error
    finally:
        unfinished.unlink(missing_ok=True)
    return archive()


def _train(into: Path) -> None:
    spark = open_session(
        Settings(
            spark=SparkSettings(conf={"spark.driver.extraJavaOptions": f'"-XX:ArchiveClassesAtExit={into}" {SILENT}'})
        )
    )
    java: Any = spark.sparkContext._jvm
    loader = java.java.lang.Thread.currentThread().getContextClassLoader()
    for jar in jars.fetch("spark"):
        if any(name in jar.name for name in _KAFKAS):
            for name in zipfile.ZipFile(jar).namelist():
                if name.endswith(".class") and "META-INF" not in name and "module-info" not in name:
                    _load(java, loader, name.removesuffix(".class").replace("/", "."))
    _run_a_query(spark)
    jvm = spark.sparkContext._gateway.proc  # type: ignore[union-attr]
    spark.stop()
    jvm.stdin.close()  # the sign to end, at which it writes the archive
    jvm.wait(_MADE_WITHIN)


def _load(java: Any, loader: Any, name: str) -> None:
    from py4j.protocol import Py4JJavaError

    try:
        java.java.lang.Class.forName(name, False, loader)
    except Py4JJavaError:
        return  # needs a library that is not there, and so is never loaded


def _run_a_query(spark: Any) -> None:
    """A stream through Python workers, batch by batch, as the job's."""

    def through(batches: Any) -> Any:
        yield from batches

    def batch(rows: Any, _: int) -> None:
        rows.mapInArrow(through, rows.schema).coalesce(1).collect()

    query = spark.readStream.format("rate").load().writeStream.foreachBatch(batch).start()
    while query.isActive and not (query.lastProgress and query.lastProgress["batchId"] >= 1):
        query.awaitTermination(1)
    query.stop()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        _train(Path(sys.argv[1]))
    else:
        try:
            print(make())
        except MillraceError as error:
            sys.exit(f"millrace: {error}")
