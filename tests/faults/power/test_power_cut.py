"""A power cut under a local folder: nothing on the disk names what is not there, and a start goes on from what is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pipeline.generate.keys import Sizes
from pipeline.generate.run import generate
from pipeline.generate.workload import Workload
from pipeline.laptop.stack.stack import StackInfo
from tests.faults.power.on_disk import broken_promises, events, recorder
from tests.kit.running import Job

pytestmark = pytest.mark.slow

SALES, BATCH = 12_000, 2_000


@pytest.fixture
def job(seeded: StackInfo, seeded_sizes: Sizes, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    workload = Workload(topics={topic: 1.0}, sizes=seeded_sizes, malformed=0.1)
    generate(bootstrap=seeded.bootstrap, workload=workload, messages=SALES, partitions=2, progress=False)
    limits = {"job.max_offsets_per_trigger": str(BATCH), "job.trigger": "available-now", "warehouse.merge_files": "0"}
    folder = tmp_path / "job"
    folder.mkdir()
    monkeypatch.setenv("LD_PRELOAD", str(recorder(tmp_path)))
    monkeypatch.setenv("RECORD_UNDER", str(folder))
    monkeypatch.setenv("RECORD_TO", str(tmp_path / "record"))
    job = Job(folder, seeded, topic, **limits).start()
    monkeypatch.undo()
    assert job.wait() == 0, job.tail()
    return job


def test_at_no_moment_is_anything_on_the_disk_that_names_what_is_not(job: Job, tmp_path: Path) -> None:
    record = list(events(tmp_path / "record"))
    broken, looked_at = broken_promises(record, job.folder)
    assert not broken
    assert looked_at["batches done"] == SALES / BATCH
    assert looked_at["commits"] == 2 * SALES / BATCH  # facts and rejects
    # What is asked for is asked of something: without the syncs, each commit breaks its promise.
    unsynced, _ = broken_promises([event for event in record if event[0] != "S"], job.folder)
    assert len(unsynced) > 4 * looked_at["commits"]


def test_a_start_takes_what_the_cut_left_unfinished_aside_and_goes_on(job: Job) -> None:
    """The last batch is done anew: its commit and Spark's note of it had their names on the disk, and no bytes."""
    last = SALES // BATCH - 1
    newest = [
        max((job.folder / "warehouse" / t / "_delta_log").glob("*.json")) for t in ("fact_sales", "sales_rejects")
    ]
    for name in (*newest, job.folder / f"checkpoint/commits/{last}"):
        os.truncate(name, 0)
    assert job.start().wait() == 0, job.tail()
    assert job.committed() + job.committed("sales_rejects") == SALES
    assert job.log.read_text().count("is unfinished, as after a power cut") == 3
