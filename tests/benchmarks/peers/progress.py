"""How far a peer is, by what it wrote: a line of its own, or Spark's checkpoint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import IO

_FILE = "progress"


def open_progress(folder: Path) -> IO[str]:
    """Where a peer writes the number of sales that are done, a line each time."""
    return (folder / _FILE).open("w", buffering=1)


def told(folder: Path) -> int:
    """The last whole line of it."""
    try:
        lines = (folder / _FILE).read_text().split("\n")[:-1]
    except FileNotFoundError:
        return 0
    return int(lines[-1]) if lines else 0


def committed(checkpoint: Path) -> int:
    """Sales up to the end of the last batch that Spark has noted as finished; the topic begins at offset 0."""
    finished = [int(file.name) for file in (checkpoint / "commits").glob("[0-9]*")]
    if not finished:
        return 0
    # Version, metadata, then the end offsets of each source.
    source = (checkpoint / "offsets" / str(max(finished))).read_text().splitlines()[2]
    return sum(sum(partitions.values()) for partitions in json.loads(source).values())
