"""Flink's look-up join with its partial cache: `FOR SYSTEM_TIME AS OF proctime`, a LEFT JOIN a dimension, no sink.

A mini-cluster in one JVM, a task a core. The SQL is sent through py4j, which comes with PySpark, so no Java is compiled
and no PyFlink installed; after that Python only reads a counter. Each table's cache is one for all tasks of the
process. JDBC has no cache of the whole table (`FULL` is taken without a word, and means none), and no look-up of
several keys in one query.
"""

from __future__ import annotations

import json
import sys
import time
import urllib.parse
import urllib.request
from typing import Any

import pyarrow as pa
import pyarrow.csv as csv
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from pipeline.java import jars, runtime
from pipeline.laptop.stack import ports
from tests.benchmarks.peers import flink_jars, flink_sql, progress
from tests.benchmarks.peers.drivers import driver
from tests.benchmarks.peers.task import Peer, Task, key_of

_HEAP = "-Xmx4g"
# As in the configuration file that Flink comes with.
_OPENED = ("lang", "lang.reflect", "net", "io", "nio", "text", "time", "util", "util.concurrent",
           "util.concurrent.atomic", "util.concurrent.locks")  # fmt: skip
_EVERY = 0.2  # seconds


class Flink:
    """A JVM with a mini-cluster, and the counter of what its job has given out."""

    def __init__(self, task: Task) -> None:
        [rest] = ports.choose(1)
        self._url = f"http://{ports.LOOPBACK}:{rest}/jobs"
        opened = [f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in _OPENED]
        classes = [*flink_jars.fetch(), *driver(task).jars]
        [py4j] = jars.SHIPPED_BY_PYSPARK.glob("py4j-*.jar")
        port = launch_gateway(
            jarpath=str(py4j), classpath=":".join(map(str, classes)), javaopts=[_HEAP, *opened],
            java_path=str(runtime.java()), die_on_exit=True, redirect_stderr=sys.stderr,
        )  # fmt: skip
        self._jvm = JavaGateway(gateway_parameters=GatewayParameters(port=port)).jvm
        api = self._jvm.org.apache.flink.table.api
        settings = api.EnvironmentSettings.newInstance().inStreamingMode()
        self._tables = api.TableEnvironment.create(settings.withConfiguration(self._configuration(task, rest)).build())

    def _configuration(self, task: Task, rest: int) -> Any:
        configuration = self._jvm.org.apache.flink.configuration.Configuration()
        for name, value in {
            "parallelism.default": task.cores,
            "taskmanager.numberOfTaskSlots": task.cores,
            "rest.bind-port": rest,
            "rest.port": rest,
            "metrics.fetcher.update-interval": f"{_EVERY * 1e3:.0f} ms",
            "pipeline.object-reuse": "true",
            # Files are finished by a checkpoint.
            **({"execution.checkpointing.interval": "1 s"} if task.keep else {}),
        }.items():
            configuration.setString(name, str(value))
        return configuration

    def begin(self, task: Task) -> Any:
        *tables, query = flink_sql.statements(task)
        for statement in tables:
            self._tables.executeSql(statement)
        return self._tables.executeSql(query)

    def done(self) -> int:
        """Sales that the sink has had. A chain of operators has a counter, too; its name has an arrow."""
        for job in self._ask("")["jobs"]:
            for vertex in self._ask(f"/{job['id']}")["vertices"]:
                metrics = f"/{job['id']}/vertices/{vertex['id']}/subtasks/metrics"
                names = [metric["id"] for metric in self._ask(metrics)]
                for name in names:
                    if name.endswith("numRecordsIn") and flink_sql.SINK in name and "->" not in name:
                        [found] = self._ask(f"{metrics}?get={urllib.parse.quote(name)}&agg=sum")
                        return int(found["sum"])
        return 0

    def _ask(self, path: str) -> Any:
        with urllib.request.urlopen(self._url + path, timeout=30) as answered:
            return json.load(answered)


def main(task: Task) -> None:
    flink = Flink(task)
    with progress.open_progress(task.folder) as told:
        job = flink.begin(task)
        if task.keep:
            job.getClass().getMethod("await", None).invoke(job, None)
            told.write(f"{task.messages}\n")
        while True:  # until it is ended
            time.sleep(_EVERY)
            if not task.keep:
                told.write(f"{flink.done()}\n")


def answer(task: Task) -> pa.Table:
    names = ["sale_id", *map(key_of, task.dimensions)]
    types = {"sale_id": pa.string(), **dict.fromkeys(names[1:], pa.int64())}
    files = [file for file in sorted((task.folder / "answer").iterdir()) if not file.name.startswith(".")]
    read, convert = csv.ReadOptions(column_names=names), csv.ConvertOptions(column_types=types)
    return pa.concat_tables(csv.read_csv(file, read, convert_options=convert) for file in files)


PEER = Peer("flink", __name__, lambda task: progress.told(task.folder), answer)

if __name__ == "__main__":
    main(Task.read(sys.argv[1]))
