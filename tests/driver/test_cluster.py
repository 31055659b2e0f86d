"""The job on a real Spark standalone cluster of two nodes, submitted as a user submits it."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pipeline.generate.keys import Sizes
from pipeline.generate.run import generate
from pipeline.generate.sent import Sent
from pipeline.generate.workload import Workload
from pipeline.laptop.stack.stack import StackInfo
from tests.kit.cluster import Cluster, bare_python
from tests.kit.running import Job, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

SALES = 60_000
SUBMIT = Path(__file__).resolve().parents[2] / "deploy" / "spark" / "submit.sh"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture
def sent(seeded: StackInfo, seeded_sizes: Sizes, topic: str) -> Sent:
    workload = Workload(topics={topic: 1.0}, sizes=seeded_sizes, malformed=0.02, unknown=0.03, duplicates=0.01)
    return generate(bootstrap=seeded.bootstrap, workload=workload, messages=SALES, partitions=4, progress=False)


@pytest.fixture
def job(
    tmp_path: Path, reader: str, cluster: Cluster, seeded: StackInfo, topic: str, monkeypatch: pytest.MonkeyPatch
) -> Job:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    submitted = Job(tmp_path, seeded, topic, job__max_offsets_per_trigger="4000", kafka__reader=reader)
    options = ["--master", cluster.master.url, "--driver-memory", "900m", "--executor-memory", "480m"]
    conf = {"spark.ui.enabled": "false", "spark.pyspark.python": bare_python()}
    options += [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    submitted.command = [str(SUBMIT), *options, "--"]
    return submitted


def test_the_nodes_python_alone_cannot_run_the_job() -> None:
    done = subprocess.run([bare_python(), "-c", "import pyarrow"], capture_output=True, text=True, check=False)
    assert "ModuleNotFoundError" in done.stderr  # so what the executors import came with the job


def test_a_submitted_job_works_off_all_sales_on_two_executors(
    job: Job, cluster: Cluster, sent: Sent, reconciled: Callable[[Job, Sent | None], None]
) -> None:
    with job:
        wait_until(lambda: len(cluster.executors()) == 2 or not job.running, "two executors", 90)
        job.wait_for(sent.messages)
        stop(job)
    reconciled(job, sent)


def test_an_executor_killed_in_mid_run_loses_nothing(
    job: Job, cluster: Cluster, sent: Sent, reconciled: Callable[[Job, Sent | None], None]
) -> None:
    with job:
        job.wait_for(SALES // 10)
        before = cluster.executors()
        os.kill(before[0], signal.SIGKILL)
        assert job.committed() < SALES // 2, "the job was nearly done before the kill; make the batches smaller"
        wait_until(lambda: len(set(cluster.executors()) - set(before)) == 1, "an executor in the place of the dead", 60)
        job.wait_for(sent.messages)
        stop(job)
    reconciled(job, sent)


def stop(job: Job) -> None:
    """spark-submit's own process is the JVM: it leaves at a signal, and the batch in hand is replayed by the next."""
    assert job.stop() == 128 + signal.SIGTERM, job.tail()
