"""Batches of 1 000 sales, one after the other, beside another checkout of Millrace: small_batches.py --other FOLDER.

    git worktree add /elsewhere 560c293 && make -C /elsewhere setup
    .venv/bin/python tests/benchmarks/small_batches.py --other /elsewhere --turns 3

The topic is full before the job starts, so each batch begins when the last one ends. What lies between the commits of
two batches, by the times of their files in the Delta log, is a batch whole: planning, notes, reading, joining, writing,
committing. Both checkouts get the same messages, database and settings, by turns; each its defaults beside them. The
first batches warm up and are not counted.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from pipeline.generate.keys import Sizes
from pipeline.generate.run import generate
from pipeline.generate.seed import seed
from pipeline.generate.workload import Workload
from pipeline.laptop.stack.stack import Stack, StackInfo
from tests.benchmarks.end_to_end import RESULTS, host
from tests.kit.running import Job, wait_until

BATCH, WARM_UP, COUNTED = 1_000, 60, 120
SIZES = Sizes(products=200_000, customers=20_000, stores=200)
TOPIC = "small-batches"
HERE = Path(__file__).resolve().parents[2]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--other", type=Path, required=True, help="a checkout that is set up (make setup)")
    options.add_argument("--turns", type=int, default=3)
    options.add_argument("--output", type=Path, default=RESULTS / "small_batches.json")
    chosen = options.parse_args()
    checkouts = {revision(place): place for place in (chosen.other.resolve(), HERE)}
    runs: list[dict[str, object]] = []
    with (
        tempfile.TemporaryDirectory(prefix="millrace-small-") as folder,
        Stack(Path(folder) / "stack", supervised=True) as stack,
    ):
        with stack.database.connect("owner") as connection:
            seed(connection, SIZES)
        workload = Workload(topics={TOPIC: 1.0}, sizes=SIZES)
        generate(
            bootstrap=stack.info().bootstrap,
            workload=workload,
            messages=BATCH * (WARM_UP + COUNTED + 20),
            partitions=4,
        )
        for turn in range(chosen.turns):
            for name, place in checkouts.items():
                seconds = batches(Path(folder) / f"{turn}-{name}", stack.info(), place)
                runs.append({"checkout": name, "turn": turn, "seconds": seconds})
                print(f"{name}, turn {turn + 1}: median {statistics.median(seconds):.3f} s", file=sys.stderr)
    chosen.output.write_text(json.dumps(report(list(checkouts), runs), indent=1) + "\n")


def batches(folder: Path, stack: StackInfo, checkout: Path) -> list[float]:
    """The seconds between its commits, of those that count."""
    folder.mkdir()
    job = Job(folder, stack, TOPIC, **{"job.trigger": "1 ms", "job.max_offsets_per_trigger": str(BATCH)})
    del job.settings["spark.conf.spark.driver.extraJavaOptions"]  # is for a test's job; this one is as a user's
    job.command = [str(checkout / ".venv/bin/python"), "-m", "pipeline.cli", "run"]
    seen = Commits(folder / "warehouse/fact_sales")
    with job:
        enough = WARM_UP + COUNTED + 1
        wait_until(lambda: len(seen.look()) >= enough or not job.running, f"{enough} commits", limit=300, every=0.5)
        moments = seen.look()[WARM_UP:enough]
        if len(moments) <= COUNTED:
            raise SystemExit(f"{checkout}: the job ended after {len(moments)} batches\n{job.tail()}")
    return [round(b - a, 4) for a, b in pairwise(moments)]


class Commits:
    """When each batch was committed, by a table's log: not when it was made, nor when its files were merged."""

    def __init__(self, table: Path) -> None:
        self._log = table / "_delta_log"
        self._of_batches: dict[str, float] = {}
        self._others: set[str] = set()

    def look(self) -> list[float]:
        for entry in self._log.glob("0*.json"):
            if entry.name not in self._of_batches and entry.name not in self._others:
                if '"txn"' in entry.read_text():
                    self._of_batches[entry.name] = entry.stat().st_mtime
                else:
                    self._others.add(entry.name)
        return [moment for _, moment in sorted(self._of_batches.items())]


def report(names: list[str], runs: list[dict[str, object]]) -> dict[str, object]:
    medians = {
        name: [statistics.median(run["seconds"]) for run in runs if run["checkout"] == name]  # type: ignore[arg-type,type-var]
        for name in names
    }
    middle = {name: statistics.median(of) for name, of in medians.items()}
    return {
        "host": host(),
        "workload": __doc__,
        "sales a batch": BATCH,
        "median of each turn": medians,
        "here by the other, median of turns": round(middle[names[-1]] / middle[names[0]], 3),
        "runs": runs,
    }


def revision(checkout: Path) -> str:
    told = subprocess.run(
        ["git", "-C", str(checkout), "rev-parse", "--short", "HEAD"], capture_output=True, check=True, text=True
    )
    return told.stdout.strip()


if __name__ == "__main__":
    main()
