"""The archive of Spark's classes that its JVM starts with: where it lies, and how the JVM is told. See make_classes."""

from __future__ import annotations

import sys
from pathlib import Path

SILENT = "-Xshare:auto -Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"


def archive() -> Path:
    return Path(sys.prefix) / "millrace-classes.jsa"


def options() -> str:
    """For the JVM: to use the archive, if there is one."""
    return f'"-XX:SharedArchiveFile={archive()}" {SILENT}' if archive().is_file() else ""  # a path may have blanks
