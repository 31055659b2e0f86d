"""Where Spark and its workers meet on one machine."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.driver import sockets


@pytest.fixture(autouse=True)
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A temporary folder without those of jobs that run meanwhile."""
    with tempfile.TemporaryDirectory(prefix="short-") as folder:  # pytest's own has too long a path for a socket
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


def test_they_lie_in_a_folder_that_no_other_account_may_enter(temporary: Path) -> None:
    options = sockets.own({})
    assert options["spark.python.unix.domain.socket.enabled"] == "true"
    folder = Path(options["spark.python.unix.domain.socket.dir"])
    assert folder.parent == temporary
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize("said", ["true", "false"])
def test_what_the_settings_say_of_them_stays(said: str, temporary: Path) -> None:
    assert sockets.own({"spark.python.unix.domain.socket.enabled": said}) == {}
    assert list(temporary.iterdir()) == []


def test_where_a_sockets_path_would_be_too_long_spark_talks_through_tcp(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = temporary / ("long" * 20)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    assert sockets.own({}) == {}


def test_the_next_job_removes_the_folder_of_one_that_was_killed_and_none_of_one_that_lives(temporary: Path) -> None:
    program = (
        "import json; from pipeline.driver import sockets; print(json.dumps(sockets.own({})), flush=True); input()"
    )
    environment = {**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": str(Path(__file__).parents[2])}
    began = [
        subprocess.Popen(
            [sys.executable, "-c", program], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    try:
        folders = [Path(json.loads(job.stdout.readline())["spark.python.unix.domain.socket.dir"]) for job in began]
        began[0].send_signal(signal.SIGKILL)
        began[0].wait(30)
        own = sockets.own({})["spark.python.unix.domain.socket.dir"]
        assert set(temporary.iterdir()) == {folders[1], Path(own)}
        began[1].communicate("\n", timeout=30)
        assert not folders[1].exists()  # it ended by itself, and took its own along
    finally:
        for job in began:
            job.kill()
            job.communicate()
