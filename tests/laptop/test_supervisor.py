"""The supervisor: what it starts can be found, is started once, and ends with its starter."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pipeline.laptop.stack import supervisor

# Says that it runs, then waits for ever.
_PROGRAM = [sys.executable, "-c", "import time; print('here', flush=True); time.sleep(600)"]

Start = Callable[[str], "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts the program behind a supervisor and waits until it runs or was refused."""
    supervisors: list[subprocess.Popen[str]] = []

    def started(mode: str) -> subprocess.Popen[str]:
        command = [sys.executable, supervisor.__file__, str(tmp_path / "pid.json"), mode, *_PROGRAM]
        pipe = subprocess.PIPE
        supervisors.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True))
        assert supervisors[-1].stdout
        supervisors[-1].stdout.readline()
        return supervisors[-1]

    yield started
    for each in supervisors:
        with each:
            each.kill()


def _recorded(tmp_path: Path) -> tuple[int, str]:
    record = json.loads((tmp_path / "pid.json").read_text())
    return record["pid"], record["started"]


def _gone(pid: int) -> bool:
    deadline = time.monotonic() + 10
    while supervisor.start_time(pid) is not None and time.monotonic() < deadline:
        time.sleep(0.02)
    return supervisor.start_time(pid) is None


@pytest.mark.parametrize("mode", ["detached", "supervised"])
def test_the_pid_file_names_the_running_program_and_when_it_started(start: Start, tmp_path: Path, mode: str) -> None:
    start(mode)
    pid, started = _recorded(tmp_path)
    assert supervisor.start_time(pid) == started
    assert "time.sleep(600)" in Path(f"/proc/{pid}/cmdline").read_text()


def test_a_second_start_is_refused_and_the_first_stays_on_record(start: Start, tmp_path: Path) -> None:
    first = start("detached")
    second = start("detached")
    assert second.wait(10) == 1
    assert _recorded(tmp_path)[0] == first.pid
    assert first.poll() is None


def test_once_the_first_has_ended_the_next_may_start(start: Start, tmp_path: Path) -> None:
    start("detached").kill()
    assert _gone(_recorded(tmp_path)[0])
    assert start("detached").pid == _recorded(tmp_path)[0]


def test_when_the_pipe_to_the_starter_ends_so_does_the_program(start: Start, tmp_path: Path) -> None:
    supervisor = start("supervised")
    assert supervisor.stdin
    supervisor.stdin.close()
    assert _gone(_recorded(tmp_path)[0])
    assert supervisor.wait(10) != 0


def test_a_supervisor_that_is_killed_takes_the_program_with_it(start: Start, tmp_path: Path) -> None:
    start("supervised").kill()
    assert _gone(_recorded(tmp_path)[0])


def test_a_supervisor_ends_when_its_program_does(start: Start, tmp_path: Path) -> None:
    supervisor = start("supervised")
    os.kill(_recorded(tmp_path)[0], signal.SIGKILL)
    assert supervisor.wait(10) != 0


def test_a_process_that_has_ended_has_no_start_time() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    assert _gone(ended.pid), "not waited for, so still in the table of processes"
    ended.wait()
    assert supervisor.start_time(ended.pid) is None
