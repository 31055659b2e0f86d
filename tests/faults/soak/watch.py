"""What the job's processes hold and what it has left on the disk, written down each minute while the soak goes on.

Looked at between two faults, when the tables have all that was sent: so what a fault itself makes the job hold is over.
All that it counts is the job's own: its processes are found below the driver, and it has a folder for temporary files
that nobody else uses (`Scene`).
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections import Counter
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from tests.benchmarks.peers.accounting import CLIENT, JVM, WORKER, kind_of, processor_seconds
from tests.faults.soak.jvm_counters import counters
from tests.faults.soak.scene import Scene
from tests.kit.running import Job, age, command_line, descendants

EVERY = 60.0  # seconds
OLDEST, OTHERS = "oldest worker", "other workers"  # a kind of fault kills the youngest
_NAMES = {CLIENT: "driver", JVM: "JVM", WORKER: "parent of workers"}  # PySpark's daemon, which lives as long as the JVM
KINDS = (*_NAMES.values(), OLDEST, OTHERS)
_OF_A_KIND = re.compile(r"[-_.]?[0-9a-f]{6,}.*|\d+")  # what makes a temporary file's name different from the next one's


class Watch:
    """Looks when a minute has passed since the last time."""

    def __init__(self, scene: Scene) -> None:
        self._scene, self._began, self._last = scene, time.monotonic(), float("-inf")

    @property
    def is_due(self) -> bool:
        return time.monotonic() - self._last >= EVERY

    def look(self) -> dict[str, Any]:
        self._last = time.monotonic()
        job = self._scene.job
        assert job.process is not None
        jvms = [pid for pid in descendants(job.process.pid) if kind_of(command_line(pid)) == JVM]
        return {
            "watch": True,
            "second": round(self._last - self._began, 1),
            "driver": job.process.pid,
            "lived": round(age(job.process.pid)),
            "processes": processes(job),
            "heap": heap(jvms[0]) if jvms else {},
            "sessions": sessions(self._scene),
            "tables": {path.parent.name: table(path.parent) for path in _logs(job)},
            "checkpoint": sum(len(files) for _, _, files in os.walk(job.settings["job.checkpoint"])),
            "temporary": temporary(job),
            "job's log": job.log.stat().st_size,
            "beside": sorted(os.listdir(job.folder)),
        }


def processes(job: Job) -> dict[str, dict[str, float]]:
    """By kind, sums over its processes, and the age of the oldest."""
    assert job.process is not None
    found: dict[str, Counter[str]] = {}
    ages: dict[str, float] = {}
    workers = sorted(job.workers(), key=age, reverse=True)
    own = dict.fromkeys(workers, OTHERS) | dict.fromkeys(workers[:1], OLDEST)
    for pid in (job.process.pid, *descendants(job.process.pid)):
        kind = own.get(pid) or _NAMES[kind_of(command_line(pid))]
        try:
            held = _held(pid)
        except OSError:
            continue  # it has ended meanwhile
        found.setdefault(kind, Counter()).update(held)
        ages[kind] = max(ages.get(kind, 0.0), age(pid))
    return {kind: {**held, "oldest": round(ages[kind])} for kind, held in found.items()}


def _held(pid: int) -> dict[str, int]:
    own = Path(f"/proc/{pid}")
    opened = _opened(own / "fd")
    return {
        "processes": 1,
        "megabytes": int((own / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20,
        "open files": len(opened),
        "sockets": sum(name.startswith("socket:") for name in opened),
        "deleted": sum(name.endswith(" (deleted)") for name in opened),
        "threads": len(os.listdir(own / "task")),
        "processor seconds": round(processor_seconds(pid)),
    }


def _opened(folder: Path) -> list[str]:
    names = []
    for entry in os.listdir(folder):
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            names.append(os.readlink(folder / entry))
    return names


def heap(jvm: int) -> dict[str, int]:
    """Megabytes and numbers as of its last collection: what is in use of the heap rises until the next one."""
    told = counters(jvm)
    if not told:
        return {}
    return {
        "old generation": told["sun.gc.generation.1.space.0.used"] >> 20,
        "taken": (told["sun.gc.generation.0.capacity"] + told["sun.gc.generation.1.capacity"]) >> 20,
        "metaspace": told["sun.gc.metaspace.used"] >> 20,
        "collections": sum(n for name, n in told.items() if re.fullmatch(r"sun\.gc\.collector\.\d\.invocations", name)),
        "threads started": told["java.threads.started"],
    }


def sessions(scene: Scene) -> int:
    """That the database has of the job."""
    user = scene.stack.database.accounts.reader.user
    with scene.stack.database.connect("admin") as connection, connection.cursor() as cursor:
        cursor.execute("SELECT COUNT(*) FROM information_schema.processlist WHERE user = %s", (user,))
        [(count,)] = cursor.fetchall()
    return int(count)


def _logs(job: Job) -> list[Path]:
    return sorted(Path(job.settings["warehouse.path"]).glob("*/_delta_log"))


def table(folder: Path) -> dict[str, int]:
    entries = os.listdir(folder / "_delta_log")
    data = [name for at, _, names in os.walk(folder) if "_delta_log" not in at for name in names]
    return {
        "commits in the log": sum(re.fullmatch(r"\d{20}\.json", name) is not None for name in entries),
        "files of the log": len(entries),
        "files of the table": len(DeltaTable(str(folder)).file_uris()),
        "files on the disk": len(data),
    }


def temporary(job: Job) -> dict[str, Any]:
    """In the job's own folder for them, and what they are called."""
    folder = Path(job.environment["TMPDIR"])
    walked = list(os.walk(folder))
    files = [Path(at, name) for at, _, names in walked for name in names]
    size = 0
    for path in files:
        with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
            size += path.lstat().st_size
    names = Counter(_OF_A_KIND.sub("", name) for name in os.listdir(folder))
    return {"files": len(files), "folders": len(walked) - 1, "bytes": size, "names": dict(sorted(names.items()))}
