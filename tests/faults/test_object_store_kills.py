"""Tables and checkpoint on a real S3 server (moto's, a process of its own): killed drivers lose and double nothing."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.generate.keys import Sizes
from pipeline.generate.run import generate
from pipeline.generate.workload import Workload
from pipeline.laptop.stack.stack import StackInfo
from tests.kit.object_store import ObjectStore, object_store
from tests.kit.running import Job, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SALES = 60_000
KILLS = 3


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ObjectStore]:
    with object_store(tmp_path) as running:
        yield running


def test_killed_drivers_lose_nothing_on_an_object_store_and_write_nothing_twice(
    store: ObjectStore, seeded: StackInfo, seeded_sizes: Sizes, topic: str, tmp_path: Path, reconciled
) -> None:
    untidy = Workload({topic: 1.0}, seeded_sizes, malformed=0.02, unknown=0.03, null_keys=0.01, duplicates=0.01)
    sent = generate(bootstrap=seeded.bootstrap, workload=untidy, messages=SALES, partitions=4, progress=False)
    moments = random.Random(3)
    where = store.settings(store.create_bucket("shop"))
    job = Job(tmp_path, seeded, topic, **where, job__max_offsets_per_trigger="2000")
    with job:
        for _ in range(KILLS):
            before = job.committed()
            # Each look reads the whole log from the store, which works with the cores that the job has.
            wait_until(
                lambda seen=before: job.committed() > seen or not job.running, "a commit after the start", 120, 1
            )
            # While it reads, writes objects, commits with a conditional put, or renames a file of the checkpoint.
            time.sleep(moments.uniform(0, 1.5))
            assert job.running, job.tail()
            job.kill()
            assert job.committed() < SALES * 0.98, "the job was done before it could be killed"
            job.start()
        job.kill()
        job.settings |= {"job.max_offsets_per_trigger": "250000", "job.trigger": "available-now"}
        job.start()
        assert job.wait() == 0, job.tail()
    reconciled(job, sent)
    said = maintain(job)
    assert "fact_sales: merge nothing" in said
    assert "fact_sales: delete the files that left the table" in said
    reconciled(job, sent)
    assert any(key.startswith("checkpoint/commits/") for key in store.keys("shop"))
    assert not (tmp_path / "checkpoint").exists()


def maintain(job: Job) -> str:
    options = [word for assignment in job.assignments for word in ("--set", assignment)]
    command = [sys.executable, "-m", "pipeline.cli", "maintain", "--job-is-stopped", *options]
    done = subprocess.run(command, cwd=job.folder, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
