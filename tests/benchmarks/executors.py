"""One executor of one core beside two, of a real standalone cluster on this machine, by turns: executors.py [turns]

The peers' workload with one dimension (deploy/docs/peers.md), through Millrace as peers/run.py runs it, but on a
cluster of Spark's own processes. Driver, broker and database are on the same cores, which is what bounds the second
executor on a machine of two: so what each kind of process spends is told beside the rates.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from pipeline.generate.keys import Sizes
from tests.benchmarks.end_to_end import RESULTS, host
from tests.benchmarks.peers import millrace, run, servers
from tests.benchmarks.peers.accounting import Snapshot, between, by_kind, snapshot
from tests.benchmarks.peers.servers import TIMED, Servers
from tests.kit.cluster import Cluster

CHOSEN = argparse.Namespace(sales=2_000_000, batch=200_000, memory="2 MiB", cached_rows=0)
SIZES = Sizes(2_000_000, 1, 1)
EXECUTORS = 1, 2


def measured(executors: int, up: Servers, folder: Path) -> dict[str, object]:
    place = Path(tempfile.mkdtemp(dir=folder))
    with Cluster(place, workers=executors, cores=1, memory_mb=1_600) as cluster:
        task = run.new_task(("product",), up, folder, CHOSEN, TIMED, CHOSEN.sales)
        task = replace(task, spark_master=cluster.master.url)
        with run.started(millrace.PEER, task) as process:

            def look(share: float) -> Snapshot:
                done = run.until(int(CHOSEN.sales * share), millrace.PEER, task, process)
                own = by_kind(process.pid, up.pids)
                on_nodes = [pair for pid in cluster.executors() for pair in by_kind(pid, {})]
                return snapshot(done, [*own, *on_nodes], up.asked())

            first, last = look(run.WARM_UP), look(run.END)
    shutil.rmtree(task.folder)
    return {"executors": executors, **between(first, last)}


def main(turns: int) -> None:
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    folder = Path(tempfile.mkdtemp(prefix="millrace-executors-"))
    runs = []
    try:
        with servers.running(folder, SIZES, 1.0, 0.0, CHOSEN.sales) as up:
            for _ in range(turns):
                for executors in EXECUTORS:
                    runs.append(measured(executors, up, folder))
                    print(json.dumps(runs[-1]), flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    rates = {n: statistics.median(r["sales a second"] for r in runs if r["executors"] == n) for n in EXECUTORS}
    told = {"host": host(), "workload": __doc__, "runs": runs, "medians": rates, "two by one": rates[2] / rates[1]}
    (RESULTS / "executors.json").write_text(json.dumps(told, indent=1) + "\n")
    print(rates, rates[2] / rates[1])


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
