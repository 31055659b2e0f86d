"""Half a million untidy sales, killed drivers, killed workers, an outage: every sale ends up in the warehouse once."""

import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.generate.keys import Sizes
from pipeline.generate.run import generate
from pipeline.generate.sent import Sent
from pipeline.generate.workload import Workload
from pipeline.laptop.stack.stack import StackInfo
from tests.kit.running import Job, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

SALES = 500_000
DRIVER_KILLS, WORKER_KILLS = 5, 10  # the soak has many more


@pytest.fixture(scope="module")
def sent(seeded: StackInfo, seeded_sizes: Sizes) -> Sent:
    """The sales of the issue: 2 % malformed, 3 % unknown, 1 % null keys, 1 % duplicates."""
    workload = Workload(
        topics={"untidy": 1.0},
        sizes=seeded_sizes,
        malformed=0.02,
        unknown=0.03,
        null_keys=0.01,
        duplicates=0.01,
        seed=7,
    )
    return generate(bootstrap=seeded.bootstrap, workload=workload, messages=SALES, partitions=4, progress=False)


@pytest.fixture
def job(tmp_path: Path, seeded: StackInfo, reader: str) -> Iterator[Job]:
    with Job(tmp_path, seeded, "untidy", job__max_offsets_per_trigger="5000", kafka__reader=reader) as running:
        yield running


def test_killed_drivers_lose_nothing_and_write_nothing_twice(job: Job, sent: Sent, reconciled) -> None:
    moments = random.Random(1)
    for _ in range(DRIVER_KILLS):
        before = job.committed()
        wait_until(lambda seen=before: job.committed() > seen, "a commit after the start", 90)
        # Somewhere in this batch or one of the next: while it reads, joins, writes files, commits or notes it as done.
        time.sleep(moments.uniform(0, 1.5))
        job.kill()
        assert job.committed() < SALES * 0.98, "the job was done before it could be killed; make the batches smaller"
        job.start()
    finish(job, sent)
    reconciled(job, sent)


def test_killed_workers_lose_nothing_and_write_nothing_twice(job: Job, sent: Sent, reconciled) -> None:
    moments = random.Random(2)
    killed = 0
    while killed < WORKER_KILLS:
        before = job.committed()
        wait_until(lambda seen=before: job.committed() > seen or not job.running, "a commit", 90)
        time.sleep(moments.uniform(0, 0.4))
        workers = job.workers()
        if workers:
            os.kill(moments.choice(workers), signal.SIGKILL)
            killed += 1
    assert job.committed() < SALES * 0.98, "the job was done before the last kill; make the batches smaller"
    finish(job, sent)
    reconciled(job, sent)


def test_a_database_that_is_away_for_twenty_seconds_only_delays_the_sales(
    job: Job, sent: Sent, stack, reconciled
) -> None:
    wait_until(lambda: job.committed() > 0, "a first commit", 90)
    stack.database.kill()
    gone_at = time.monotonic()
    try:
        # The front stages may go on for a while; then every batch needs the database and none can be committed.
        wait_until(lambda: time.monotonic() - gone_at > 20, "twenty seconds", 30)
        assert job.running, job.tail()
    finally:
        stack.database.start()
    finish(job, sent)
    reconciled(job, sent)


def finish(job: Job, sent: Sent) -> None:
    """Let the job work off the rest in large batches."""
    if job.running:
        job.kill()
    job.settings |= {"job.max_offsets_per_trigger": "250000", "job.trigger": "available-now"}
    job.start()
    assert job.wait() == 0, job.tail()
    assert job.committed() + job.committed("sales_rejects") == sent.messages
