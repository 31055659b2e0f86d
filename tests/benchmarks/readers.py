"""Both readers on the whole path, by turns: processor time a sale by process, and the time of a batch of 1 000 sales.

Workload: product 200 000 rows drawn by Zipf 1.0, customer 20 000 and store 200, four Kafka partitions, three dimensions
joined, Delta on local disk, broker and database on the same machine. Large batches: 250 000 sales each, the first three
not counted. Small ones: 1 000 each, one after the other, the first forty not counted. Time is between the checkpoint's
notes of finished batches, processor time is what the kernel accounts to each process in between. readers.py [turns]
"""

from __future__ import annotations

import json
import shutil
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from end_to_end import RESULTS, host

from pipeline.generate.keys import Sizes
from pipeline.generate.run import generate
from pipeline.generate.seed import seed
from pipeline.generate.workload import Workload
from pipeline.laptop.stack.stack import Stack
from tests.benchmarks.peers.accounting import processor_seconds
from tests.kit.running import Job, command_line, descendants, wait_until

SIZES = Sizes(products=200_000, customers=20_000, stores=200)
TOPIC = "readers"


@dataclass(frozen=True)
class Case:
    name: str
    batch: int  # sales
    warm_up: int  # batches not counted
    counted: int


CASES = Case("large", 250_000, 3, 7), Case("small", 1_000, 40, 120)
READERS = "spark", "direct"


def main(turns: int) -> None:
    folder = Path(tempfile.mkdtemp(prefix="millrace-readers-"))
    results = []
    try:
        with Stack(folder / "stack", supervised=True) as stack:
            with stack.database.connect("owner") as connection:
                seed(connection, SIZES)
            messages = max(case.batch * (case.warm_up + case.counted + 1) for case in CASES)
            workload = Workload(topics={TOPIC: 1.0}, sizes=SIZES)
            generate(bootstrap=stack.info().bootstrap, workload=workload, messages=messages, partitions=4)
            for turn in range(turns):
                for case in CASES:
                    for reader in READERS[:: 1 if turn % 2 else -1]:
                        results.append(measured(case, reader, turn, stack, folder))
                        print(json.dumps(results[-1]), flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    told = {"host": host(), "workload": __doc__, "turns": turns, "runs": results, "medians": medians(results)}
    (RESULTS / "readers.json").write_text(json.dumps(told, indent=1) + "\n")
    print(json.dumps(told["medians"], indent=1))


def measured(case: Case, reader: str, turn: int, stack: Stack, folder: Path) -> dict[str, object]:
    place = Path(tempfile.mkdtemp(dir=folder))
    settings = {"job.trigger": "1 ms", "job.max_offsets_per_trigger": str(case.batch), "kafka.reader": reader}
    # As a user's job: with the compiler that a test's job does without.
    settings["spark.conf.spark.driver.extraJavaOptions"] = "-XX:+UseParallelGC"
    with Job(place, stack.info(), TOPIC, **settings) as job:
        finished = place / "checkpoint" / "commits"
        until(finished, case.warm_up, job)
        before, began = spent(job, stack), time.monotonic()
        until(finished, case.warm_up + case.counted, job)
        seconds = time.monotonic() - began
        after = spent(job, stack)
        if job.stop() != 0:
            raise SystemExit(job.tail())
    shutil.rmtree(place)
    sales = case.batch * case.counted
    cpu = {name: round((after[name] - before[name]) / sales * 1e6, 3) for name in after}
    return {
        "case": case.name, "reader": reader, "turn": turn, "seconds a batch": round(seconds / case.counted, 4),
        "sales a second": round(sales / seconds), "cpu us a sale": cpu | {"all": round(sum(cpu.values()), 3)},
    }  # fmt: skip


def until(finished: Path, batches: int, job: Job) -> None:
    def there() -> bool:
        if not job.running:
            raise SystemExit(job.tail())
        return (finished / str(batches - 1)).exists()

    wait_until(there, f"{batches} batches", 300)


def spent(job: Job, stack: Stack) -> dict[str, float]:
    """Seconds of processor time so far."""
    found = dict.fromkeys(("driver", "jvm", "workers", "broker", "database"), 0.0)
    assert job.process is not None
    for pid in [job.process.pid, *descendants(job.process.pid)]:
        command = command_line(pid)
        kind = "workers" if "pyspark.daemon" in command else "jvm" if "java" in command.split(" ")[0] else "driver"
        found[kind] += processor_seconds(pid)
    for server, kind in ((stack.kafka, "broker"), (stack.database, "database")):
        found[kind] = processor_seconds(server.pid or 0)
    return found


def medians(results: list[dict]) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = {}
    for case in CASES:
        for reader in READERS:
            runs = [run for run in results if run["case"] == case.name and run["reader"] == reader]
            parts = runs[0]["cpu us a sale"]
            found[f"{case.name}, {reader}"] = {
                "seconds a batch": statistics.median(run["seconds a batch"] for run in runs),
                "sales a second": statistics.median(run["sales a second"] for run in runs),
                "cpu us a sale": {
                    part: statistics.median(run["cpu us a sale"][part] for run in runs) for part in parts
                },
            }
    return found


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
