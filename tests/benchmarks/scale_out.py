"""What 1, 2, 10 and 100 executors of two cores would do: a simulation over measured unit costs. scale_out.py

What a sale and a key cost whom is read from results/floor.json, what a batch costs beside that from below; the keys
that are asked for are drawn. Each worker has 2 MiB and 100 000 sales of a batch, of the peers' product table (R of two
million, Zipf 1.0), and a cache that has settled: it holds the most wanted rows, as many as the real one held
(node_caches.json). Twice the workers are there for twice the sales.

    each     a cache for each worker, as it is built
    node     one cache for the workers of an executor, with their memory together
    routed   each key belongs to one worker: no row is cached twice, no key asked for twice. Every sale has to be sent
             there, which is charged with what Spark's own reader costs the JVM more than ours does (readers.json):
             a sale through the JVM to Python and back, without a network

Left out, and each makes a real cluster slower: the network, brokers and a database at their limit (what they need is
told), stragglers, executors that fail. What a worker spends is the whole job's, not the stages' alone; it waits for the
database, which works for its two sessions at once. The same arithmetic for the real executor of one core that
executors.py measured stands in the result beside what that did.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from pipeline.generate.zipf import ZipfDraw
from tests.benchmarks.executors import CHOSEN
from tests.benchmarks.node_caches import RESULTS, ROWS, SKEW, WINDOW

EXECUTORS, CORES = (1, 2, 10, 100), 2
SESSIONS = 2  # of a worker with the database
BETWEEN_BATCHES = 0.12  # seconds in which no worker works: results/batch_timeline.txt
A_TASK = 0.002  # of them that a task more takes the driver: the JVM's 4 ms for two tasks, ibid.
WAYS = "each", "node", "routed"
LOOKED_AT = 8  # workers, or nodes: others are as they


@dataclass(frozen=True)
class Costs:
    """Microseconds of a core."""

    sale: float  # of a worker's, whatever becomes of it
    key: float  # of a worker's, that is asked for
    key_there: float  # of the database's
    sale_there: float  # of the broker's
    sent: float  # of a worker's, that is sent to another worker

    @classmethod
    def measured(cls) -> Costs:
        floor = json.loads((RESULTS / "floor.json").read_text())["medians"]
        readers = json.loads((RESULTS / "readers.json").read_text())["medians"]
        job, alone, asked = floor["job"], floor["alone"], floor["keys asked a sale"]
        jvm = [readers[f"large, {name}"]["cpu us a sale"]["jvm"] for name in ("spark", "direct")]
        return cls(
            sale=job["worker"] - alone["fetch"]["own"],
            key=alone["fetch"]["own"] / asked,
            key_there=alone["fetch"]["database"] / asked,
            sale_there=alone["read"]["broker"],
            sent=jvm[0] - jvm[1],
        )


def keys_a_sale(together: int, workers: int, cached_rows: int) -> float:
    """Asked of the database: distinct keys of a batch that are in no cache. `together`: workers that share one."""
    law, random = ZipfDraw(ROWS, SKEW), np.random.default_rng(workers)
    asked = sales = 0
    for _ in range(min(LOOKED_AT, workers // together)):
        ranks = law.draw(random.random(together * WINDOW))
        asked += len(np.unique(ranks[ranks >= cached_rows]))
        sales += len(ranks)
    return asked / sales


def seconds_a_batch(workers: int, sales: int, keys: float, costs: Costs, routed: bool = False) -> float:
    """Of so many sales for each worker, of which each asks for so many keys."""
    a_sale = costs.sale + keys * (costs.key + costs.key_there / SESSIONS) + (costs.sent if routed else 0.0)
    return sales * a_sale / 1e6 + BETWEEN_BATCHES + workers * A_TASK


def cell(way: str, executors: int, cached: Mapping[str, Any], costs: Costs) -> dict[str, Any]:
    workers = executors * CORES
    together, rows = {
        "each": (1, cached["each"][0]),
        "node": (CORES, cached["one"]),
        "routed": (workers, sum(cached["each"]) * executors),
    }[way]
    keys = keys_a_sale(together, workers, rows)
    seconds = seconds_a_batch(workers, WINDOW, keys, costs, routed=way == "routed")
    rate = workers * WINDOW / seconds
    return {
        "way": way,
        "executors": executors,
        "keys a sale": round(keys, 3),
        "sales a second": round(rate),
        "cores of the database": round(rate * keys * costs.key_there / 1e6, 1),
        "cores of the brokers": round(rate * costs.sale_there / 1e6, 1),
        "sessions": workers * SESSIONS,
        "seconds a batch": round(seconds, 2),
    }


def checked(costs: Costs) -> dict[str, float]:
    """One real executor of one core, and the same by this arithmetic."""
    real = json.loads((RESULTS / "executors.json").read_text())
    keys = next(run["asked a sale"]["keys"] for run in real["runs"] if run["executors"] == 1)
    return {
        "measured": real["medians"]["1"],
        "simulated": round(CHOSEN.batch / seconds_a_batch(1, CHOSEN.batch, keys, costs)),
    }


def main() -> None:
    costs = Costs.measured()
    cached = json.loads((RESULTS / "node_caches.json").read_text())["runs"][0]["cached_rows"]  # of two workers
    cells = []
    for way in WAYS:
        of_way = [cell(way, executors, cached, costs) for executors in EXECUTORS]
        cells += [one | {"by one executor": one["sales a second"] / of_way[0]["sales a second"]} for one in of_way]
    for one in cells:
        print(json.dumps(one))
    one_core = checked(costs)
    print("one executor of one core, sales a second:", one_core)
    told = {"workload": __doc__, "costs": vars(costs), "cached_rows": cached, "one_core": one_core, "cells": cells}
    (RESULTS / "scale_out.json").write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
