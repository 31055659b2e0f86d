"""How old the master rows of the facts are while the master changes: staleness.py [seconds] [sales a second] [changes].

A job on the embedded servers, and a writer that changes, removes and brings back rows of 2 000 products: each change
has a version of its own, and the moment of its commit is noted. Afterwards each fact is held against that history: if
its row had been replaced before the sale was sent, it is stale by the time between the two. By turns with the feed and
without; rows and absences in memory would be good for ten minutes in both.
"""

from __future__ import annotations

import json
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from deltalake import DeltaTable
from join_lab import RESULTS, host

from pipeline.generate.keys import Sizes
from pipeline.generate.run import generate
from pipeline.generate.workload import Workload
from pipeline.laptop.stack.stack import Stack
from tests.kit.moving_master import MovingMaster
from tests.kit.mysql_server import asked_for
from tests.kit.running import Job

SIZES = Sizes(products=2_000, customers=2_000, stores=100)
LIFE = "10 min"


def main() -> None:
    seconds, rate, changes = (float(word) for word in (*sys.argv[1:], *("60", "20000", "200")[len(sys.argv) - 1 :]))
    runs = []
    with (
        tempfile.TemporaryDirectory(prefix="millrace-staleness-") as folder,
        Stack(Path(folder) / "stack", supervised=True, program=asked_for) as stack,
    ):
        for turn, feed in enumerate(("binlog", "off", "binlog")):
            database = f"moving_{turn}"
            stack.database.create_database(database)
            runs.append(
                {"feed": feed, **one_run(stack, database, Path(folder) / str(turn), feed, seconds, rate, changes)}
            )
            print(json.dumps(runs[-1]), file=sys.stderr, flush=True)
        told = {
            "host": host(), "server": stack.database.kind, "seconds": seconds, "sales a second": rate,
            "changes a second": changes, "max_staleness": LIFE, "runs": runs,
        }  # fmt: skip
    (RESULTS / "staleness.json").write_text(json.dumps(told, indent=1) + "\n")


def one_run(
    stack: Stack, database: str, folder: Path, feed: str, seconds: float, rate: float, changes: float
) -> dict[str, Any]:
    folder.mkdir()
    topic = f"sales-{database}"
    moving = MovingMaster(stack, database, SIZES, changes)
    job = Job(folder, stack.info(), topic, master__database=database, master__feed=feed)
    for name in ("product", "customer", "store"):
        job.settings |= {f"dimensions.{name}.{life}": LIFE for life in ("max_staleness", "absent_staleness")}
    sales = partial(
        generate, bootstrap=stack.info().bootstrap, workload=Workload(topics={topic: 1.0}, sizes=SIZES), progress=False
    )
    sent = sales(messages=2_000).messages
    with job:
        job.wait_for(sent)
        with moving:
            sent += sales(seconds=seconds, rate=rate).messages
        job.wait_for(sent)
        assert job.stop() == 0, job.tail()
    found = moving.judge(DeltaTable(str(folder / "warehouse" / "fact_sales")))
    return {
        "changes": moving.changes, "facts": found.facts, "of products that changed": found.of_changed,
        "with a row that never was": found.never_was, "stale": len(found.stale),
        "p99 seconds": found.quantile(0.99), "p99.9 seconds": found.quantile(0.999),
        "longest seconds": max(found.stale, default=0.0),
    }  # fmt: skip


if __name__ == "__main__":
    main()
