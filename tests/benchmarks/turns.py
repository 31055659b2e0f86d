"""The joins of two checkouts by turns, without a server: turns.py OTHER [seconds] [turns].

What changes in a join's own steps shows here and nowhere else: R lies in this process and answers at once. Each join
gets an endless stream over 200 000 rows, uniform and by Zipf's law, with 1, 8 and 32 MiB, once to warm up and once to
be counted. A process for each checkout and turn, one after the other; the better of its turns counts, for a machine
that is disturbed is slower and never faster.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

HERE = Path(__file__).resolve()
RESULT = HERE.parent / "results" / "turns.json"
ROWS, SALES, PIECE = 200_000, 2_000_000, 16_384
SKEWS, MEMORIES = (0.0, 1.0), (1 << 20, 8 << 20, 32 << 20)


def keys_of_sales(skew: float) -> pa.Array:
    """By Zipf's law, the wanted rows scattered over R."""
    random = np.random.default_rng(0)
    up_to = np.cumsum(1 / np.arange(1, ROWS + 1) ** skew)
    ranks = np.searchsorted(up_to, random.random(SALES) * up_to[-1])
    return pa.array(2 * random.permutation(ROWS)[np.minimum(ranks, ROWS - 1)])


def rate(name: str, memory: int, skew: float, sold: pa.Array, table: pa.Table, seconds: float) -> float:
    """Sales a second."""
    from pipeline import joins
    from pipeline.master.memory import MemoryMaster

    try:
        from pipeline.joins import Options
        from pipeline.joins.cost.question import Stream
    except ImportError:  # a checkout of before the joins had a door
        from pipeline.joins.base import Options  # type: ignore[no-redef]
        from pipeline.joins.cost.units import Stream  # type: ignore[no-redef]

    join = joins.make(name, MemoryMaster(table), memory, Options(stream=Stream(e=skew, batch=1 << 40)))
    position = 0

    def run() -> float:
        nonlocal position
        began, before = time.perf_counter(), join.statistics.offered - join.pending
        while time.perf_counter() - began < seconds:
            taken = 1
            while taken:
                piece = sold.slice(position % SALES, PIECE)
                taken = join.offer(np.arange(position, position + len(piece)), piece)
                position += taken
            join.step()
        return (join.statistics.offered - join.pending - before) / (time.perf_counter() - began)

    run()
    return run()


def measure(seconds: float) -> dict[str, float]:
    from pipeline.joins import JOINS

    keys = 2 * np.arange(ROWS)
    table = pa.table(
        {
            "key": keys,
            "surrogate_key": keys + 1,
            "updated_at": pa.array(keys, pa.timestamp("us", tz="UTC")),
            "label": [f"label {key:010d}" for key in keys],
        }
    )
    streams = {skew: keys_of_sales(skew) for skew in SKEWS}
    return {
        f"{name}, {memory >> 20} MiB, skew {skew}": rate(name, memory, skew, streams[skew], table, seconds)
        for memory in MEMORIES
        for skew in SKEWS
        for name in JOINS
    }


def main() -> None:
    if sys.argv[1] == "--measure":
        print(json.dumps(measure(float(sys.argv[2]))))
        return
    seconds, turns = [*map(float, sys.argv[2:]), *(0.6, 2.0)[len(sys.argv) - 2 :]]
    checkouts = {"other": Path(sys.argv[1]).resolve(), "this": HERE.parents[2]}
    found: dict[str, list[dict[str, float]]] = {name: [] for name in checkouts}
    for _ in range(int(turns)):
        for name, folder in checkouts.items():
            environment = {**os.environ, "PYTHONPATH": str(folder)}
            command = [sys.executable, "-P", str(HERE), "--measure", str(seconds)]
            done = subprocess.run(command, env=environment, cwd=folder, check=True, stdout=subprocess.PIPE)
            found[name].append(json.loads(done.stdout))
    commits = {
        name: subprocess.run(["git", "-C", str(folder), "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
        for name, folder in checkouts.items()
    }
    result = {
        "seconds": seconds,
        "commits": {name: done.stdout.strip() for name, done in commits.items()},
        "turns": found,
    }
    RESULT.write_text(json.dumps(result, indent=1) + "\n")
    for case in (case for case in found["this"][0] if case in found["other"][0]):  # joins that both have
        before, now = (max(turn[case] for turn in found[name]) for name in ("other", "this"))
        print(f"{case:<36}{before:>12,.0f}{now:>12,.0f}{now / before:>7.2f}")


if __name__ == "__main__":
    main()
