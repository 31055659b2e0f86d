"""Where Spark and its workers meet on one machine: sockets of the file system, in a folder of this account alone.

Through TCP the end of a task's input, eight bytes behind its command, waits 40 ms for the other side to acknowledge the
command: the least that any task takes. On a cluster the folder would have to be on each machine, so there Spark talks
as it is told to.
"""

from __future__ import annotations

import atexit
import fcntl
import shutil
import socket
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO

ENABLED = "spark.python.unix.domain.socket.enabled"
_FOLDER = "spark.python.unix.domain.socket.dir"
_NAMED = "millrace-sockets-"
_HELD = "held"  # a file that is locked as long as the folder's process lives
_AS_LONG_AS_SPARKS = f".{'0' * 36}.sock"  # Spark's sockets have names of this length

_locks: list[IO[str]] = []  # open as long as this process lives


def own(given: Mapping[str, str]) -> dict[str, str]:
    """Spark's settings for a new folder, unless the given ones say how to talk; none where no socket can be bound."""
    if ENABLED in given or not hasattr(socket, "AF_UNIX"):
        return {}
    _remove_those_of_the_dead()
    folder = Path(tempfile.mkdtemp(prefix=_NAMED))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    _hold(folder)
    try:
        with socket.socket(socket.AF_UNIX) as tried:
            tried.bind(str(folder / _AS_LONG_AS_SPARKS))
    except OSError:  # too long a path, or a file system without sockets
        return {}
    return {ENABLED: "true", _FOLDER: str(folder)}


def _hold(folder: Path) -> None:
    """The lock is there before its file has its name: whoever finds it unlocked may take its process for dead."""
    lock = (folder / "new").open("w")
    with suppress(OSError):  # a file system without locks: nobody finds it unlocked there either
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        (folder / "new").rename(folder / _HELD)
    _locks.append(lock)


def _remove_those_of_the_dead() -> None:
    """A job that was killed could not remove its own."""
    for held in Path(tempfile.gettempdir()).glob(f"{_NAMED}*/{_HELD}"):
        with suppress(OSError), held.open("r+") as lock:  # another account's, or locked: its process lives
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(held.parent, ignore_errors=True)
