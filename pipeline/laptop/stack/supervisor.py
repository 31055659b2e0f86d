"""Starts one server so that it can always be found again, and, if told to, never outlives the process that started it.

Run as a program of its own, with nothing but the standard library, so that it starts fast:

    python supervisor.py PID_FILE detached|supervised COMMAND ...

The pid file is written by the very process that becomes the server, before it does, so there is no moment in which a
server runs and no file names it. Supervised, this program stays: its standard input is a pipe whose other end only
the starter holds, and when the starter dies, however it dies, the pipe ends and so does the server.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

GRACE_SECONDS = 10
_PR_SET_PDEATHSIG = 1


def start_time(pid: int) -> str | None:
    """When a process started, which tells it from a later one with the same number; None if there is none."""
    try:
        # The name, in parentheses, may hold blanks; state is the first field behind it, start time the twentieth.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return None if Path("/proc/self").exists() else _start_time_from_ps(pid)
    except ProcessLookupError:
        return None
    return None if fields[0] in "ZX" else fields[19]


def _start_time_from_ps(pid: int) -> str | None:
    answer = subprocess.run(["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    state, _, started = answer.stdout.strip().partition(" ")
    return None if not state or state.startswith("Z") else started.strip()


def _become(pid_file: Path, command: list[str]) -> None:
    # Held until the server ends. A second one that is started before the first wrote its pid file stops here.
    lock = os.open(pid_file.with_suffix(".lock"), os.O_CREAT | os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit(f"{pid_file}: its server is starting or running already.")
    os.set_inheritable(lock, True)
    unfinished = pid_file.with_suffix(".partial")
    unfinished.write_text(json.dumps({"pid": os.getpid(), "started": start_time(os.getpid())}))
    unfinished.replace(pid_file)
    os.execvp(command[0], command)


def _supervise(pid_file: Path, command: list[str]) -> int:
    ended, write_end = os.pipe()
    os.set_blocking(write_end, False)
    signal.set_wakeup_fd(write_end)  # the server's end wakes the select below
    signal.signal(signal.SIGCHLD, lambda *_: None)
    server = os.fork()
    if server == 0:
        os.setsid()
        if sys.platform == "linux":
            # If this supervisor is killed as well, the kernel ends the server.
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        _become(pid_file, command)
    while True:
        ready, _, _ = select.select([0, ended], [], [])
        if 0 in ready and not os.read(0, 1):
            return _end(server)
        if ended in ready:
            os.read(ended, 64)
        done, status = os.waitpid(server, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)


def _end(server: int) -> int:
    os.kill(server, signal.SIGTERM)
    signal.signal(signal.SIGALRM, lambda *_: os.kill(server, signal.SIGKILL))
    signal.alarm(GRACE_SECONDS)
    return os.waitstatus_to_exitcode(os.waitpid(server, 0)[1])


def main() -> None:
    pid_file, mode, *command = sys.argv[1:]
    if mode == "supervised":
        sys.exit(_supervise(Path(pid_file), command))
    _become(Path(pid_file), command)


if __name__ == "__main__":
    main()
