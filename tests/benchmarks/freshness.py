"""How old a sale is when its fact is in Delta: freshness.py [--seconds 120 600] [--rate 60000].

Two streams, one after the other, each into a table of its own while the job runs: 2 000 sales a second, steady; then
bursts with a mean of --rate (of self-similar bursts, as `millrace generate --bursty` makes them). Three dimensions, 2 M
products by Zipf 1.0. A sale's age is the time of its commit's file in the Delta log less the time that Kafka's message
has: neither is told by the job. Sales of the first seconds warm up and are not counted. The generator, the broker and
the database run beside the job, on the same cores.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from pipeline.generate.run import generate
from pipeline.generate.seed import seed
from pipeline.generate.workload import Workload
from pipeline.laptop.stack.stack import Stack, StackInfo
from tests.benchmarks.end_to_end import RESULTS, SIZES, host
from tests.kit.running import Job

WARM_UP = 20.0  # seconds
STEADY = 2_000.0  # sales a second


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument(
        "--seconds",
        type=float,
        nargs=2,
        default=(120, 600),
        help="of steady stream and bursts, behind the warm-up",
    )
    options.add_argument("--rate", type=float, default=60_000, help="sales a second in the mean of the bursts")
    options.add_argument("--output", type=Path, default=RESULTS / "freshness.json")
    chosen = options.parse_args()
    streams: dict[str, object] = {}
    told = {"host": host(), "workload": __doc__, "streams": streams}
    with (
        tempfile.TemporaryDirectory(prefix="millrace-fresh-") as folder,
        Stack(Path(folder) / "stack", supervised=True) as stack,
    ):
        with stack.database.connect("owner") as connection:
            seed(connection, SIZES)
        for name, rate, seconds in zip(("steady", "bursts"), (STEADY, chosen.rate), chosen.seconds, strict=True):
            place = Path(folder) / name
            place.mkdir()
            ages = stream(place, stack.info(), name, rate, name == "bursts", seconds)
            streams[name] = {"rate": rate, "seconds": seconds} | ages
            print(name, json.dumps(streams[name]), file=sys.stderr)
            chosen.output.write_text(json.dumps(told, indent=1) + "\n")


def stream(place: Path, stack: StackInfo, topic: str, rate: float, bursty: bool, seconds: float) -> dict[str, object]:
    workload = Workload(topics={topic: 1.0}, sizes=SIZES)
    generate(bootstrap=stack.bootstrap, workload=workload, messages=1_000, partitions=4, progress=False)
    job = Job(place, stack, topic, **{"job.trigger": "10 ms", "kafka.starting_offsets": "earliest"})
    del job.settings["spark.conf.spark.driver.extraJavaOptions"]  # is for a test's job; this one is as a user's
    with job:
        job.wait_for(1_000)
        sent = generate(
            bootstrap=stack.bootstrap,
            workload=workload,
            rate=rate,
            bursty=bursty,
            seconds=WARM_UP + seconds,
            partitions=4,
        )
        job.wait_for(1_000 + sent.messages, limit=300)
    commits, ages = counted(place / "warehouse/fact_sales")
    p50, p99, oldest = (round(float(age), 3) for age in np.quantile(ages, [0.5, 0.99, 1.0]))
    return {
        "sales": len(ages),
        "commits": commits,
        "seconds old, half of the sales at most": p50,
        "99 in 100 at most": p99,
        "all at most": oldest,
    }


def counted(table: Path) -> tuple[int, np.ndarray]:
    """Of the sales behind the warm-up: the commits that brought them, and how old each was then."""
    ages: list[np.ndarray] = []
    begins = None
    for entry in sorted((table / "_delta_log").glob("0*.json"))[2:]:  # the table, and what came before the stream
        committed = entry.stat().st_mtime
        begins = begins or committed + WARM_UP
        actions = [json.loads(line) for line in entry.read_text().splitlines()]
        new = [table / unquote(action["add"]["path"]) for action in actions if action.get("add", {}).get("dataChange")]
        if committed >= begins and new:
            sent = [pq.read_table(file, columns=["kafka_timestamp"])["kafka_timestamp"].to_numpy() for file in new]
            ages.append(committed - np.concatenate(sent).astype("datetime64[us]").astype(np.int64) / 1e6)
    return len(ages), np.concatenate(ages)


if __name__ == "__main__":
    main()
