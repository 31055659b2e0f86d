"""How a commit grows with the number of batches, with and without merging: commits.py [batches] [batches without].

Real tables on a local disk, the job's own warehouse and merging, no Spark and no Kafka: two files of facts and one of
rejects a batch, as two tasks leave them, one batch after the other without a pause. So merging has less time for itself
than beside a job, whose batches take longer.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from join_lab import RESULTS, host

from pipeline.warehouse.merging import Merging
from pipeline.warehouse.port import Batch
from pipeline.warehouse.warehouse import make_warehouse
from tests.kit.warehouse_samples import APPLICATION, FACTS, REJECTS, fact, reject, warehouse_settings, written

MANY = 200  # batches at each end


def measure(batches: int, merge_files: int) -> dict[str, object]:
    """Milliseconds a commit, of the first batches and the last."""
    with tempfile.TemporaryDirectory() as folder:
        where = replace(warehouse_settings(Path(folder)), merge_files=merge_files)
        warehouse = make_warehouse(where, FACTS, [REJECTS], APPLICATION, spark=None)
        warehouse.prepare()
        merges: list[tuple[int, float, bool]] = []
        merging = Merging(where, lambda files, seconds, failed: merges.append((files, seconds, failed)))
        took = []
        for number in range(batches):
            facts = [file for task in "12" for file in written(where, FACTS, [fact(number)], attempt=task)]
            batch = Batch(number, facts, {"rejects": written(where, REJECTS, [reject("x")])}, {"offsets": {}})
            began = time.perf_counter()
            warehouse.commit(batch)
            took.append(1000 * (time.perf_counter() - began))
            merging.committed("facts", 2)
            merging.committed("rejects", 1)
        merging.close()
    ends = {"first": took[:MANY], "last": took[-MANY:]}
    return {
        "batches": batches,
        "merge_files": merge_files,
        "mean_ms": {end: statistics.fmean(of) for end, of in ends.items()},
        "median_ms": {end: statistics.median(of) for end, of in ends.items()},
        "longest_ms": max(took),
        "merges": len(merges),
        "failed": sum(failed for _, _, failed in merges),
        "merged_files": sum(files for files, _, _ in merges),
        "merge_seconds": sum(seconds for _, seconds, _ in merges),
    }


def main() -> None:
    given = [*map(int, sys.argv[1:]), *(5_000, 2_000)[len(sys.argv) - 1 :]]
    found = [measure(given[0], 256), measure(given[1], 0)]
    for told in found:
        print(json.dumps(told))
    (RESULTS / "commits.json").write_text(json.dumps({"host": host(), "runs": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
