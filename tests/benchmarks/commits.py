"""What a commit costs, by the entries of its table's log: commits.py.

A real table on a local disk, the job's own warehouse, no Spark and no Kafka: a file of facts a batch. All entries but
those of the batches that are timed are put there, with nothing in them. Milliseconds, medians of forty commits.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

from deltalake import DeltaTable

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from pipeline.warehouse.port import Batch
from pipeline.warehouse.warehouse import make_warehouse
from tests.kit.warehouse_samples import APPLICATION, FACTS, REJECTS, create, fact, warehouse_settings, written

ENTRIES, COMMITS = (100, 1_000, 5_000, 20_000), 40


def milliseconds(entries: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        where = warehouse_settings(Path(folder))
        create(where)
        nothing = json.dumps({"commitInfo": {"timestamp": int(time.time() * 1000), "operation": "WRITE"}}) + "\n"
        for version in range(1, entries):
            Path(where.path, "facts/_delta_log", f"{version:020}.json").write_text(nothing)
        DeltaTable(f"{where.path}/facts").create_checkpoint()
        warehouse = make_warehouse(where, FACTS, [REJECTS], APPLICATION, spark=None)  # type: ignore[arg-type]
        warehouse.prepare()
        took = []
        for number in range(COMMITS):
            batch = Batch(number, written(where, FACTS, [fact(number)]), {}, {"offsets": {}})
            began = time.perf_counter()
            warehouse.commit(batch)
            took.append(time.perf_counter() - began)
        return round(1000 * statistics.median(took), 1)


if __name__ == "__main__":
    print(json.dumps({entries: milliseconds(entries) for entries in ENTRIES}))
