"""The highest rate that a peer keeps up with: climb.py sends more and more sales a second until it falls behind.

Karimov's rule (Benchmarking Distributed Stream Data Processing Systems, 2018): a rate is sustained if what waits stays
bounded. Sales are sent at a rate for some seconds; if at the end no more than --behind seconds of them wait, the next
step is a quarter higher. The generator runs beside broker, database and peer, so its share of the processors is in the
result. A rate that the generator itself cannot send ends the climb, and the result says so. Beside run.py's arguments:

    .venv/bin/python -m tests.benchmarks.peers.climb --first 10000 --seconds 15 --behind 2
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import uuid
from dataclasses import replace
from pathlib import Path

from pipeline.generate.keys import DIMENSIONS, Sizes
from pipeline.generate.run import generate
from pipeline.generate.workload import Workload
from tests.benchmarks.end_to_end import RESULTS, host
from tests.benchmarks.peers import servers
from tests.benchmarks.peers.run import PEERS, arguments, new_task, started, until
from tests.benchmarks.peers.servers import PARTITIONS, Servers
from tests.benchmarks.peers.task import Peer

_STEP = 1.25
_ENDLESS = 1 << 62
_WARM_UP = 50_000  # sales that a peer has before it climbs


def main() -> None:
    options = arguments()
    options.set_defaults(output=RESULTS / "peers_climb.json", turns=1)
    options.add_argument("--first", type=int, default=10_000, help="sales a second of the first step")
    options.add_argument("--seconds", type=float, default=15.0, help="of a step")
    options.add_argument("--behind", type=float, default=2.0, help="seconds of sales that may wait")
    chosen = options.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="millrace-climb-"))
    sizes = Sizes(chosen.products, chosen.customers, chosen.stores)
    runs: list[dict[str, object]] = []
    try:
        with servers.running(folder, sizes, chosen.skew, chosen.missing, chosen.sales) as up:
            for turn in range(chosen.turns):
                for number in chosen.dimensions:
                    for name in chosen.peers:
                        steps = climb(PEERS[name], DIMENSIONS[:number], up, folder, chosen)
                        highest = max((step["rate"] for step in steps if step["sustained"]), default=0)
                        case = {"peer": name, "dimensions": number, "turn": turn + 1, "sustained": highest}
                        print(json.dumps(case), file=sys.stderr, flush=True)
                        runs.append({**case, "steps": steps})
                        told = {"host": host(), "workload": vars(chosen) | {"output": ""}, "runs": runs}
                        chosen.output.write_text(json.dumps(told, indent=1) + "\n")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def climb(
    peer: Peer, dimensions: tuple[str, ...], up: Servers, folder: Path, chosen: argparse.Namespace
) -> list[dict[str, float]]:
    """All steps, of which the last is the one that was too much."""
    topic = f"climb-{uuid.uuid4().hex[:12]}"
    up.stack.kafka.create_topic(topic, PARTITIONS)
    task = replace(new_task(dimensions, up, folder, chosen, topic, _ENDLESS), batch=chosen.batch)
    workload = Workload(topics={topic: 1.0}, sizes=up.sizes, skew=chosen.skew, scatter=True)
    steps: list[dict[str, float]] = []
    rate = float(chosen.first)
    with started(peer, task) as process:
        sent = generate(bootstrap=task.bootstrap, workload=workload, messages=_WARM_UP, progress=False).messages
        until(sent, peer, task, process)
        while not steps or steps[-1]["sustained"]:
            more = generate(
                bootstrap=task.bootstrap, workload=replace(workload, first_sale=sent), rate=rate,
                seconds=chosen.seconds, progress=False,
            )  # fmt: skip
            sent += more.messages
            steps.append(judged(rate, more.messages_per_second, (sent - peer.done(task)) / rate, chosen.behind))
            rate = round(rate * _STEP)
    up.stack.kafka.delete_topic(topic)
    shutil.rmtree(task.folder)
    return steps


def judged(rate: float, really: float, waiting: float, bound: float) -> dict[str, float]:
    """Whether a rate is sustained: it was really sent, and what waits is bounded.

    >>> [judged(1_000, 990, waiting, 2.0)["sustained"] for waiting in (0.5, 3.0)]
    [True, False]
    >>> judged(1_000, 700, 0.5, 2.0)["sustained"]
    False
    """
    return {
        "rate": rate, "sent a second": really, "seconds behind": round(waiting, 2),
        "sustained": waiting <= bound and really >= 0.95 * rate,
    }  # fmt: skip


if __name__ == "__main__":
    main()
