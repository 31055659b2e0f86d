"""A replay and a backfill while the real job appends to the same tables: each message is there once."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.kit.running import Job, wait_until
from tests.reentry.reentry_world import World, sale

pytestmark = pytest.mark.slow


def done_beside(job: Job, *command: str) -> str:
    words = [word for assignment in job.assignments for word in ("--set", assignment)]
    run = [sys.executable, "-m", "pipeline.cli", *command, *words]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def sent_meanwhile(world: World) -> Iterator[list[int]]:
    """Sales are sent until the block ends; the list has how many."""
    over, sent = threading.Event(), [0]

    def send() -> None:
        while not over.wait(0.05):
            first = sent[0]
            world.send(*(sale(n, currency="eur" if n % 3 == 0 else "EUR") for n in range(first, first + 20)))
            sent[0] += 20

    sending = threading.Thread(target=send)
    sending.start()
    try:
        yield sent
    finally:
        over.set()
        sending.join()


def test_rejects_and_deleted_facts_enter_while_the_job_goes_on(world: World, tmp_path: Path, reconciled) -> None:
    with Job(tmp_path, world.info, world.topic) as job:
        with sent_meanwhile(world) as sent:
            job.wait_for(100)
            wait_until(lambda: job.committed("sales_rejects") >= 30, "thirty rejects")
            mended = world.mended(currency={"pattern": "^[A-Za-z]{3}$"}).settings
            job.settings |= dict(setting.split("=", 1) for setting in mended)  # of what is run beside it from here on
            before = sent[0]
            assert "rejects became facts" in done_beside(job, "rejects", "replay")
            DeltaTable(f"{tmp_path}/warehouse/fact_sales").delete("offset < 30")
            assert " 30 facts and 0 rejects written" in done_beside(job, "backfill", "--from", "earliest")
            assert sent[0] > before
        job.wait_for(sent[0])
        assert job.stop() == 0, job.tail()
    reconciled(job, None)
