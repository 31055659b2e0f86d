"""One cache a node beside one a worker, of the same bytes together: keys asked of the master a sale. node_caches.py

The real front stage of `auto` over the peers' product table (R of two million, Zipf's law with exponent 1, scattered
rows), computed and on a virtual clock: a run says the same on any machine. A micro-batch has 100 000 sales for each
worker. With a cache each, a worker has its own sales and its own 2 MiB; with one for all, one join of all the memory
has all the sales of the batch as one window, so no key is asked for twice at once either. That is the most that shared
memory could bring: a real one has locks, and misses that cross. Counted as the peers are: from the fifth of ten batches
of 200 000 sales on, and again when the caches have settled.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from pipeline.generate.zipf import ZipfDraw
from pipeline.joins import Options, make
from pipeline.joins.cost.question import Stream
from pipeline.master.charged import ChargedMaster
from pipeline.master.computed import ComputedRows
from pipeline.master.disks import VirtualClock
from tests.benchmarks.hits import AT_ONCE, NEVER, served

ROWS, ROW_BYTES, SKEW = 2_000_000, 58, 1.0
MEMORY, WINDOW = 2 << 20, 100_000  # of a worker
WORKERS = 2, 4
COLD, WARM = 5, 40  # batches, until they are counted
COUNTED = 5

RESULTS = Path(__file__).parent / "results"


class Cache:
    """The join of a worker, or of a node."""

    def __init__(self, rows: ComputedRows, memory: int, window: int) -> None:
        clock = VirtualClock()
        self.master = ChargedMaster(rows, AT_ONCE, clock)
        options = Options(
            stream=Stream(SKEW, window), max_staleness=NEVER, absent_staleness=NEVER, clock=clock, connections=2
        )
        self.join = make("front stage + fetch", self.master, memory, options)

    @property
    def asked(self) -> int:
        return self.master.reads.by_kind["lookup"].rows


def measured(workers: int) -> dict[str, object]:
    rows, law, random = ComputedRows(ROWS, ROW_BYTES, scattered=True), ZipfDraw(ROWS, SKEW), np.random.default_rng(1)
    each = [Cache(rows, MEMORY, WINDOW) for _ in range(workers)]
    together = Cache(rows, workers * MEMORY, workers * WINDOW)

    def batches(number: int) -> tuple[float, float]:
        before = sum(cache.asked for cache in each), together.asked
        for _ in range(number):
            keys = rows.keys_of(law.draw(random.random(workers * WINDOW)))
            for cache, own in zip(each, np.split(keys, workers), strict=True):
                served(cache.join, own)
            served(together.join, keys)
        sales = number * workers * WINDOW
        return (sum(cache.asked for cache in each) - before[0]) / sales, (together.asked - before[1]) / sales

    batches(COLD)
    cold = batches(COUNTED)
    batches(WARM)
    warm = batches(COUNTED)
    return {
        "workers": workers,
        "keys_a_sale": {name: {"each": a, "one": b} for name, (a, b) in (("as the peers", cold), ("settled", warm))},
        "cached_rows": {"each": [cache.join.cached_rows for cache in each], "one": together.join.cached_rows},
    }


def main() -> None:
    found = []
    for workers in WORKERS:
        found.append(measured(workers))
        print(json.dumps(found[-1]), flush=True)
    told = {"workload": __doc__, "memory_of_a_worker": MEMORY, "runs": found}
    (RESULTS / "node_caches.json").write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
