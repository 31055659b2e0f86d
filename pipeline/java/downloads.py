"""Where everything fetched is kept, outside the clone, so that a second clone need not fetch it again."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pipeline.errors import MillraceError


def place(name: str) -> Path:
    """Where the part of the cache called `name` is, or will be. `MILLRACE_CACHE` moves the whole."""
    chosen = os.environ.get("MILLRACE_CACHE")
    base = Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "millrace"
    return base.expanduser() / name


def folder(name: str) -> Path:
    """The part of the cache called `name`, made if need be."""
    part = place(name)
    try:
        part.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MillraceError(f"{part} cannot be made: {error.strerror}. Name a folder in MILLRACE_CACHE.") from error
    return part


@contextlib.contextmanager
def locked(name: str) -> Iterator[None]:
    """Let one process at a time fill a part of the cache; the lock dies with its holder."""
    with (folder("locks") / name).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def plainly_named(folder: Path) -> Iterator[Path]:
    """The same folder under a name without blanks, for programs that are shell scripts and do not expect any."""
    with tempfile.TemporaryDirectory(prefix="millrace-") as place:
        link = Path(place) / "here"
        link.symlink_to(folder.absolute())
        yield link


@contextlib.contextmanager
def scratch(within: Path) -> Iterator[Path]:
    """A folder on the same file system as `within`, so that what is made there can be renamed into place."""
    path = Path(tempfile.mkdtemp(dir=within, prefix=".partial-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
