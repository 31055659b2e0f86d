"""A disk that fills up under a running job: one sentence; with room again the same start goes on, exactly once."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pipeline.generate.keys import Sizes
from pipeline.generate.run import generate
from pipeline.generate.workload import Workload
from pipeline.laptop.stack.stack import StackInfo
from tests.kit.disks import disk
from tests.kit.running import Job

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

SALES = 30_000


def test_a_disk_that_fills_up_stops_the_job_with_a_sentence_and_loses_nothing(
    seeded: StackInfo, seeded_sizes: Sizes, topic: str, tmp_path: Path, reconciled
) -> None:
    untidy = Workload({topic: 1.0}, seeded_sizes, malformed=0.02, unknown=0.03)
    sent = generate(bootstrap=seeded.bootstrap, workload=untidy, messages=SALES, partitions=2, progress=False)
    with disk(tmp_path / "small", "size=2m") as mounted:
        where = {
            "job.trigger": "available-now",
            "warehouse.path": str(mounted.folder / "lake"),
            "job.checkpoint": str(mounted.folder / "checkpoint"),
        }
        job = Job(tmp_path, seeded, topic, **where, job__max_offsets_per_trigger="1000")
        job.command = mounted.command(*job.command)
        with job:
            assert job.wait() == 2, job.tail()
            said = job.log.read_text().splitlines()
            assert said[-1].startswith("millrace: "), job.tail()
            assert str(mounted.folder) in said[-1]
            assert "the disk is full (" in said[-1]
            assert "Nothing is lost: the same start then goes on behind the last commit." in said[-1]
            assert not [line for line in said if "Traceback" in line or line.startswith(("\tat ", "  File "))]

            mounted.remount("size=256m")
            job.start()
            assert job.wait() == 0, job.tail()
        shutil.copytree(mounted.seen(mounted.folder) / "lake", tmp_path / "warehouse")
    job.settings["warehouse.path"] = str(tmp_path / "warehouse")
    reconciled(job, sent)
