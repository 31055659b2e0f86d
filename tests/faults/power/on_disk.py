"""What a local disk is sure to have at each moment of a record of writes (`recorder.c`), if the power goes just then.

A file is there when its bytes were synced after they were written, and its name: the folder synced after the name was
made, and so on up to the folder where the record begins. Everything else may be there or not, so it does not count.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

import pytest

HERE = Path(__file__).parent
ENTRY = re.compile(r"/_delta_log/(\d{20})\.json$")
DONE = re.compile(r"/checkpoint/commits/(\d+)$")


def recorder(folder: Path) -> Path:
    """The library to preload, compiled."""
    library = folder / "recorder.so"
    try:
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, HERE / "recorder.c", "-ldl"], check=True)
    except FileNotFoundError:
        pytest.fail("a C compiler is needed to record what a job writes: install one as `cc` (Debian: gcc)")
    return library


@dataclass
class Disk:
    """Told the events in their order."""

    root: str
    written: set[str] = field(default_factory=set)  # with bytes that are not on the disk
    named: set[str] = field(default_factory=set)  # with a name that is not on the disk

    def happened(self, kind: str, path: str, other: str = "") -> None:
        if kind == "W":
            self.written.add(path)
        elif kind == "N":
            self.named.add(path)
        elif kind == "R":
            (self.written.add if path in self.written else self.written.discard)(other)
        elif kind == "S":
            self.written.discard(path)
            self.named -= {name for name in self.named if name.rpartition("/")[0] == path}

    def has(self, path: str) -> bool:
        above = [path, *(str(parent) for parent in Path(path).parents if str(parent).startswith(f"{self.root}/"))]
        return path not in self.written and not self.named.intersection(above)


def events(record: Path) -> Iterator[list[str]]:
    for line in record.read_text().splitlines():
        yield line.split("\t")


def broken_promises(record: list[list[str]], root: Path) -> tuple[list[str], dict[str, int]]:
    """Moments at which a power cut would have left something that names what is not there; and what was looked at."""
    disk, broken, looked_at = Disk(str(root)), [], {"commits": 0, "batches done": 0}
    of_batch: dict[int, list[str]] = {}  # the entries that hold each batch
    for event in record:
        if event[0] == "N" and (entry := ENTRY.search(event[1])) and int(entry[1]):
            said = [json.loads(line) for line in Path(event[1]).read_text().splitlines()]
            table = Path(event[1]).parent.parent
            added = [f"{table}/{unquote(each['add']['path'])}" for each in said if "add" in each]
            batch = next(each["txn"]["version"] for each in said if "txn" in each)
            of_batch.setdefault(batch, []).append(event[1])
            needed = [*added, f"{root}/checkpoint/offsets/{batch}", f"{root}/checkpoint/metadata"]
            broken += [f"{event[1]} begins without {name}" for name in needed if not disk.has(name)]
            looked_at["commits"] += 1
        elif event[0] == "N" and (done := DONE.search(event[1])):
            needed = of_batch.get(int(done[1]), [])
            broken += [f"batch {done[1]} is done without {name}" for name in needed if not disk.has(name)]
            looked_at["batches done"] += bool(needed)
        disk.happened(*event)
    return broken, looked_at
