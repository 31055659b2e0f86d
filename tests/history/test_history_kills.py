"""A sync that is killed goes on where it was: in the middle of its snapshot, and of the log."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.history.history_world import Workload, World
from tests.kit.running import wait_until

pytestmark = [pytest.mark.mysql, pytest.mark.slow, pytest.mark.timeout(280)]

# The command, with pages and commits small enough to be killed between them.
SMALL = """
import sys
from pipeline.cli import main
from pipeline.history import dimension
dimension._PAGE, dimension._MOST_CHANGES = int(sys.argv[1]), 25
main(sys.argv[2:])
"""
# Rows that come while it is scanned lie behind all others: by small pages a slow machine never reaches the end.
FEW, ALL = 4, 10_000


class Sync:
    def __init__(self, world: World, *words: str, page: int = ALL) -> None:
        given = [part for assignment in world.assignments for part in ("--set", assignment)]
        self._world, self._log = world, (world.folder / "sync.log").open("ab")
        command = [sys.executable, "-c", SMALL, str(page), "sync", *words, *given]
        self._process = subprocess.Popen(command, stdout=self._log, stderr=self._log)

    def wait_for_commits(self, more: int) -> None:
        uri = str(self._world.folder / "warehouse" / "dim_product")
        before = DeltaTable(uri).version() if DeltaTable.is_deltatable(uri) else 0
        what = f"{more} more commits"
        wait_until(lambda: DeltaTable.is_deltatable(uri) and DeltaTable(uri).version() >= before + more, what, 60)

    def end(self, number: int = signal.SIGKILL) -> int:
        os.kill(self._process.pid, number)
        return self._process.wait(60)

    def result(self) -> int:
        return self._process.wait(120)


def test_a_sync_that_is_killed_in_its_snapshot_and_in_the_log_loses_and_doubles_nothing(
    stack, master_database, tmp_path: Path
) -> None:
    world = World(stack, master_database, tmp_path)
    world.make()
    workload, stop, choose = Workload(world, seed=11, keys=80), threading.Event(), random.Random(3)
    workload.run(120)
    beside = threading.Thread(target=workload.run, args=(100_000, stop))
    beside.start()
    try:
        for commits in (4, 5):
            sync = Sync(world, page=FEW)
            sync.wait_for_commits(commits)
            assert sync.end() == -signal.SIGKILL
            assert not world.notes()[-1]["is_whole"], "the snapshot was done before it could be killed"
        for _ in range(3):
            sync = Sync(world, "--follow", "--every", "50 ms")
            sync.wait_for_commits(choose.randrange(25, 45))
            assert sync.end() == -signal.SIGKILL
            assert world.notes()[-1]["is_whole"]
        sync = Sync(world, "--follow", "--every", "50 ms")
        sync.wait_for_commits(5)
    finally:
        stop.set()
        beside.join()
    assert sync.end(signal.SIGTERM) == 0
    assert Sync(world, "--once").result() == 0
    assert len({note["epoch_place"] for note in world.notes()}) == 1, "a snapshot was begun again"
    assert world.states() == world.kept_by_triggers(world.behind(world.notes()[0]["epoch_place"]))
