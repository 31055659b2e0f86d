"""5 000 batches of 1 000 sales without a pause: is the last as quick as the first, and what grows: many_batches.py.

The topic is full before the job starts, so each batch begins when the last one ends; three dimensions, `auto`, usual
settings. Every 200 batches the processes of the job are looked at: resident memory and open files, by kind.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections import Counter
from itertools import pairwise
from pathlib import Path

from deltalake import DeltaTable

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from pipeline.generate.run import generate
from pipeline.generate.seed import seed
from pipeline.generate.workload import Workload
from pipeline.laptop.stack.stack import Stack, StackInfo
from tests.benchmarks.end_to_end import RESULTS, host
from tests.benchmarks.peers.accounting import by_kind
from tests.benchmarks.small_batches import BATCH, SIZES, WARM_UP, Commits
from tests.kit.running import Job, wait_until

TOPIC = "many-batches"
STRETCH = 200  # batches that are compared, and between two looks


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--batches", type=int, default=5_000)
    options.add_argument("--output", type=Path, default=RESULTS / "many_batches.json")
    chosen = options.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="millrace-many-") as folder,
        Stack(Path(folder) / "stack", supervised=True) as stack,
    ):
        with stack.database.connect("owner") as connection:
            seed(connection, SIZES)
        workload, messages = Workload(topics={TOPIC: 1.0}, sizes=SIZES), BATCH * (WARM_UP + chosen.batches + 20)
        generate(bootstrap=stack.info().bootstrap, workload=workload, messages=messages, partitions=4)
        told = run(Path(folder) / "job", stack.info(), WARM_UP + chosen.batches)
    document = {"host": host(), "workload": __doc__, "sales a batch": BATCH, **told}
    chosen.output.write_text(json.dumps(document, indent=1) + "\n")


def run(folder: Path, stack: StackInfo, batches: int) -> dict[str, object]:
    folder.mkdir()
    job = Job(folder, stack, TOPIC, **{"job.trigger": "1 ms", "job.max_offsets_per_trigger": str(BATCH)})
    del job.settings["spark.conf.spark.driver.extraJavaOptions"]  # is for a test's job; this one is as a user's
    table, looks = folder / "warehouse/fact_sales", []
    commits = Commits(table)
    with job:
        for goal in (*range(WARM_UP + STRETCH, batches, STRETCH), batches):
            wait_until(lambda goal=goal: len(commits.look()) > goal or not job.running, f"{goal} commits", 600, every=1)
            if not job.running:
                raise SystemExit(f"the job ended after {len(commits.look())} batches\n{job.tail()}")
            looks.append(looked_at(job, len(commits.look())))
        files = len(DeltaTable(str(table)).file_uris())
    seconds = [b - a for a, b in pairwise(commits.look()[WARM_UP:batches])]
    stretches = [
        round(statistics.median(seconds[at : at + STRETCH]), 4) for at in range(0, len(seconds) - STRETCH + 1, STRETCH)
    ]
    first, last = seconds[:STRETCH], seconds[-STRETCH:]
    return {
        "batches": len(seconds),
        "last 200 by the first 200, medians": round(statistics.median(last) / statistics.median(first), 3),
        "last 200 by the first 200, sums": round(sum(last) / sum(first), 3),
        "seconds a batch, median of each 200": stretches,
        "files of the table": files,
        "processes": looks,
    }


def looked_at(job: Job, batches: int) -> dict[str, object]:
    assert job.process
    megabytes: Counter[str] = Counter()
    handles: Counter[str] = Counter()
    for kind, pid in by_kind(job.process.pid, {}):
        try:
            resident = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            handles[kind] += len(os.listdir(f"/proc/{pid}/fd"))
        except OSError:
            continue  # it has ended meanwhile
        megabytes[kind] += resident >> 20
    return {"batches": batches, "megabytes": dict(megabytes), "open files": dict(handles)}


if __name__ == "__main__":
    main()
