"""Redpanda Connect itself, built from Go's module proxy: no index that is used here has a package of it.

Of the whole only what `connect/main.go` names; the complete program has hundreds of connectors more. Versions are those
of `connect/go.mod`, and a module must have the checksum that `connect/go.sum` has.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from pipeline.errors import MillraceError
from pipeline.java import downloads

_SOURCES = Path(__file__).with_name("connect")
_PROGRAM = "redpanda-connect"


class NoGo(MillraceError):
    """There is nothing to build it with."""


def fetch() -> Path:
    """The program; the first time 110 MB are fetched, and compiled for some minutes."""
    home = downloads.folder("peers") / f"{_PROGRAM}-{fingerprint()}"
    with downloads.locked("peers"):
        if not home.exists():
            _make(home)
    return home / _PROGRAM


def fingerprint() -> str:
    """Of the sources: with other versions it is another program."""
    return hashlib.sha256(b"".join(file.read_bytes() for file in sorted(_SOURCES.iterdir()))).hexdigest()[:12]


def _make(home: Path) -> None:
    go = shutil.which("go")
    if go is None:
        raise NoGo(
            "Redpanda Connect is built from source, and no Go was found on the PATH. Install Go 1.26 or newer, or "
            "leave it out: make bench-peers ARGS='--peers loop flink spark millrace'."
        )
    print("building Redpanda Connect ...", file=sys.stderr, flush=True)
    with downloads.scratch(home.parent) as folder:
        (folder / "bin").mkdir()
        # All that Go fetches and compiles goes with the scratch folder; without -modcacherw it could not be removed.
        environment = os.environ | {"GOPATH": str(folder / "go"), "GOCACHE": str(folder / "cache"), "CGO_ENABLED": "0"}
        build = [go, "build", "-mod=readonly", "-modcacherw", "-buildvcs=false", "-trimpath"]
        subprocess.run([*build, "-o", folder / "bin" / _PROGRAM, "."], cwd=_SOURCES, env=environment, check=True)
        (folder / "bin").rename(home)
