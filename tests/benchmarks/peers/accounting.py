"""What a peer uses: processor time and memory of its processes and of the servers, by kind, and the database's work.

Processor time is what the kernel accounts to each process that is alive when it is looked at. Peak memory is the sum of
the greatest resident set that each process has had, so pages that forked workers share count once for each of them.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.kit.running import command_line, descendants

CLIENT, JVM, WORKER, BROKER, DATABASE = KINDS = ("client", "jvm", "worker", "broker", "database")
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Snapshot:
    """The counters of one moment; they only grow."""

    at: float
    done: int  # sales
    cpu: Mapping[str, float]  # seconds of processor, by kind
    busy: float  # seconds that the machine's processors were not idle, whoever had them
    asked: Mapping[str, int]  # the database's counters


def kind_of(command: str) -> str:
    """What a process of a peer is, by its command line.

    >>> kind_of("/usr/bin/java -cp x org.apache.spark.deploy.SparkSubmit"), kind_of("python -m pyspark.daemon")
    ('jvm', 'worker')
    >>> kind_of("python -m tests.benchmarks.peers.loop task.json")
    'client'
    """
    if "pyspark.daemon" in command:
        return WORKER
    return JVM if Path(command.split(" ")[0]).name == "java" else CLIENT


def by_kind(root: int, servers: Mapping[str, int]) -> list[tuple[str, int]]:
    """Kind and number of each process below a peer's first one, and of the servers."""
    own = [(kind_of(command_line(pid)), pid) for pid in (root, *descendants(root))]
    return [*own, *servers.items()]


def processor_seconds(pid: int) -> float:
    """So far, user and system; 0 for a process that is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS


def peak_bytes(pid: int) -> int:
    """The greatest resident set it has had; 0 for a process that is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")) << 10


def busy_seconds() -> float:
    """Of all processors since the machine started, without waiting for disks."""
    user, nice, system, _idle, _waiting, interrupt, soft, *_ = map(
        int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    )
    return (user + nice + system + interrupt + soft) / _TICKS


def snapshot(done: int, processes: Iterable[tuple[str, int]], asked: Mapping[str, int]) -> Snapshot:
    cpu = Counter(dict.fromkeys(KINDS, 0.0))
    for kind, pid in processes:
        cpu[kind] += processor_seconds(pid)
    return Snapshot(time.monotonic(), done, cpu, busy_seconds(), asked)


def peaks(processes: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Megabytes of a peer's own processes, by kind; servers outlive a turn, and their peak is not its own."""
    found: Counter[str] = Counter()
    for kind, pid in processes:
        if kind not in (BROKER, DATABASE):
            found[kind] += peak_bytes(pid)
    return {**{kind: round(size / 1e6) for kind, size in found.items()}, "all": round(found.total() / 1e6)}


def between(first: Snapshot, last: Snapshot) -> dict[str, object]:
    """What a sale took from one moment to another."""
    sales, seconds = last.done - first.done, last.at - first.at
    cpu = {kind: (last.cpu[kind] - first.cpu[kind]) / sales * 1e6 for kind in last.cpu}
    all_of_it = sum(cpu.values())
    others = (last.busy - first.busy - all_of_it * sales / 1e6) / seconds
    return {
        "sales": sales,
        "seconds": round(seconds, 2),
        "sales a second": round(sales / seconds),
        "cpu us a sale": {kind: round(micros, 2) for kind, micros in {**cpu, "all": all_of_it}.items()},
        "asked a sale": {name: round((last.asked[name] - first.asked[name]) / sales, 5) for name in last.asked},
        "cores others used": round(others, 2),
    }
