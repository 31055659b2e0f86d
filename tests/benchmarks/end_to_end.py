"""make bench: sales a second from Kafka to Delta, on this machine, with the embedded stack.

Workload: product 2 M rows drawn by Zipf 1.0, customer 200 000 and store 500 by Zipf 0.5, four Kafka partitions, three
dimensions joined. Each case runs the job until the topic is empty; a batch's time is the distance between two commits
in the Delta log, so it holds everything: planning, reading, parsing, joining, writing, committing. The first batches
warm up and are not counted. Compare cases of one run with each other, never with another machine's.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import sys
import tempfile
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path

from deltalake import DeltaTable

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from pipeline.generate.keys import Sizes
from pipeline.generate.run import generate
from pipeline.generate.seed import seed
from pipeline.generate.workload import Workload
from pipeline.laptop.stack.stack import Stack, StackInfo
from tests.kit.running import Job

RESULTS = Path(__file__).parent / "results"
SIZES = Sizes(products=2_000_000, customers=200_000, stores=500)
PACKAGES = ("pyspark", "delta-spark", "deltalake", "pyarrow", "numpy", "msgspec", "confluent-kafka")


@dataclass(frozen=True)
class Case:
    name: str
    topic: str
    batch: int  # messages a micro-batch
    warm_up: int  # batches not counted
    settings: dict[str, str]


CASES = (
    Case("clean, 250 000 a batch", "clean", 250_000, 3, {}),
    Case("2 % malformed, 250 000 a batch", "malformed", 250_000, 3, {}),
    Case("clean, 20 000 a batch", "small", 20_000, 5, {}),
    Case("clean, 250 000 a batch, inlj", "clean", 250_000, 3, {
        f"dimensions.{d}.algorithm": "inlj" for d in ("product", "customer", "store")}),
    Case("clean, 250 000 a batch, spark writer", "clean", 250_000, 3, {"warehouse.writer": "spark"}),
)  # fmt: skip
TOPICS = {"clean": (2_500_000, 0.0), "malformed": (2_500_000, 0.02), "small": (500_000, 0.0)}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--repeats", type=int, default=3)
    options.add_argument("--output", type=Path, default=RESULTS / "end_to_end.json")
    chosen = options.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="millrace-bench-"))
    try:
        with Stack(folder / "stack", supervised=True) as stack:
            fill(stack)
            results = [run(case, repeat, stack.info(), folder) for repeat in range(chosen.repeats) for case in CASES]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    document = {"host": host(), "workload": __doc__, "seed": 1, "repeats": chosen.repeats, "runs": results}
    document["summary"] = summary(results)
    chosen.output.parent.mkdir(exist_ok=True)
    chosen.output.write_text(json.dumps(document, indent=1) + "\n")
    plot(document, chosen.output.with_suffix(".png"))
    print(json.dumps(document["summary"], indent=1))


def fill(stack: Stack) -> None:
    with stack.database.connect("owner") as connection:
        seed(connection, SIZES)
    for topic, (messages, malformed) in TOPICS.items():
        workload = Workload(topics={topic: 1.0}, sizes=SIZES, malformed=malformed)
        generate(bootstrap=stack.info().bootstrap, workload=workload, messages=messages, partitions=4)


def run(case: Case, repeat: int, stack: StackInfo, folder: Path) -> dict[str, object]:
    place = Path(tempfile.mkdtemp(dir=folder))
    settings = {"job.trigger": "available-now", "job.max_offsets_per_trigger": str(case.batch), **case.settings}
    with Job(place, stack, case.topic, **settings) as job:
        if job.wait(900) != 0:
            raise SystemExit(f"{case.name}: the job failed\n{job.tail()}")
    commits = sorted(
        commit["timestamp"]
        for commit in DeltaTable(str(place / "warehouse/fact_sales")).history()
        if commit["operation"] in ("WRITE", "STREAMING UPDATE") and "CREATE" not in commit["operation"]
    )
    seconds = [round((b - a) / 1000, 3) for a, b in pairwise(commits)][case.warm_up :]
    shutil.rmtree(place)
    rate = case.batch * len(seconds) / sum(seconds)
    print(
        f"{case.name}, run {repeat + 1}: {rate:,.0f} sales/s, batch median {statistics.median(seconds):.2f} s",
        file=sys.stderr,
    )
    return {"case": case.name, "repeat": repeat, "batch": case.batch, "seconds": seconds, "rate": round(rate)}


def summary(results: list[dict]) -> dict[str, dict[str, float]]:
    by_case: dict[str, dict[str, float]] = {}
    for name in dict.fromkeys(result["case"] for result in results):
        rates = [result["rate"] for result in results if result["case"] == name]
        seconds = [s for result in results if result["case"] == name for s in result["seconds"]]
        by_case[name] = {
            "sales a second, median of runs": statistics.median(rates),
            "lowest run": min(rates),
            "highest run": max(rates),
            "seconds a batch, median": statistics.median(seconds),
            "slowest batch": max(seconds),
        }
    first = next(iter(by_case.values()))["sales a second, median of runs"]
    for case in by_case.values():
        case["relative to the first"] = round(case["sales a second, median of runs"] / first, 2)
    return by_case


def host() -> dict[str, object]:
    cpu = next(
        (line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line),
        "",
    )
    return {
        "when": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "cpu": cpu,
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "packages": {package: version(package) for package in PACKAGES},
    }


def plot(document: dict, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    names = list(document["summary"])
    figure, axes = pyplot.subplots(figsize=(9, 0.7 * len(names) + 1.2))
    for row, name in enumerate(names):
        rates = [run["rate"] / 1000 for run in document["runs"] if run["case"] == name]
        axes.barh(row, statistics.median(rates), color="#4c78a8", alpha=0.6)
        axes.plot(rates, [row] * len(rates), "o", color="black", markersize=4)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlabel("thousand sales a second, Kafka to Delta (bar: median, dots: runs)")
    axes.set_title(f"{document['host']['cpu']}, {document['host']['cores']} cores, all servers on the same machine")
    figure.tight_layout()
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
