"""make bench-peers: Millrace beside what one would take instead, on one topic and one database, by turns.

deploy/docs/peers.md tells what is measured and how. A large run needs a machine with nothing else on it:

    make bench-peers                                                      # 2 M sales, three turns, MariaDB
    MILLRACE_DATABASE=mysql make bench-peers                              # the same on MySQL
    make bench-peers ARGS="--sales 300000 --products 200000 --turns 1"    # in small: does everything work?

Raw results are written after every run, so what was measured stays if a later one fails; --output says where. A plot of
the same name lies beside them in the end.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipeline.generate.keys import DIMENSIONS, Sizes
from pipeline.laptop.stack.supervisor import start_time
from tests.benchmarks.end_to_end import RESULTS, host
from tests.benchmarks.peers import answers, flink, loop, millrace, plot, redpanda, servers, spark, table
from tests.benchmarks.peers.accounting import Snapshot, between, by_kind, peaks, snapshot
from tests.benchmarks.peers.servers import CHECKED, CHECKED_SALES, TIMED, Servers
from tests.benchmarks.peers.task import Peer, Task
from tests.kit.running import descendants, wait_until

PEERS = {peer.name: peer for peer in (loop.PEER, flink.PEER, redpanda.PEER, spark.PEER, millrace.PEER)}
ROOT = Path(__file__).resolve().parents[3]
WARM_UP, END = 0.2, 0.95  # shares of the sales: what is between them is steady
_MOST_SECONDS = 3_600.0


class PeerFailed(Exception):
    """It ended by itself."""


class TooShort(Exception):
    """It was through before it could be looked at twice."""


def main() -> None:
    chosen = arguments().parse_args()
    folder = Path(tempfile.mkdtemp(prefix="millrace-peers-"))
    sizes = Sizes(chosen.products, chosen.customers, chosen.stores)
    told: dict[str, Any] = {"host": host(), "workload": vars(chosen) | {"output": chosen.output.name}, "runs": []}
    runs: list[dict[str, object]] = []
    try:
        with servers.running(folder, sizes, chosen.skew, chosen.missing, chosen.sales) as up:
            told["database"] = up.version()
            cases = [(PEERS[name], DIMENSIONS[:number]) for number in chosen.dimensions for name in chosen.peers]
            for peer, dimensions in cases:
                checked(peer, dimensions, up, folder, chosen)
            for turn in range(chosen.turns):
                for peer, dimensions in cases:
                    run = timed(peer, dimensions, up, folder, chosen)
                    runs.append({"peer": peer.name, "dimensions": len(dimensions), "turn": turn + 1, **run})
                    print(json.dumps(runs[-1]), file=sys.stderr, flush=True)
                    told |= {"runs": runs, "medians": table.medians(runs)}
                    chosen.output.write_text(json.dumps(told, indent=1) + "\n")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    plot.draw(told, chosen.output.with_suffix(".png"))
    print(table.text(table.medians(runs)))


def arguments() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS))
    options.add_argument("--dimensions", nargs="+", type=int, choices=(1, 2, 3), default=[1, 3], help="how many")
    options.add_argument("--turns", type=int, default=3)
    options.add_argument("--sales", type=int, default=2_000_000)
    options.add_argument("--products", type=int, default=2_000_000)
    options.add_argument("--customers", type=int, default=200_000)
    options.add_argument("--stores", type=int, default=500)
    options.add_argument("--skew", type=float, default=1.0, help="of products: Zipf's exponent")
    options.add_argument("--missing", type=float, default=0.0, help="share of products that have no row")
    options.add_argument("--cached-rows", type=int, default=20_000, help="of a dimension: loop and Flink")
    options.add_argument("--memory", default="2 MiB", help="of a dimension in a worker: Millrace")
    options.add_argument("--batch", type=int, default=200_000, help="sales of a batch: Millrace and Spark")
    options.add_argument("--output", type=Path, default=RESULTS / "peers.json")
    return options


def checked(peer: Peer, dimensions: tuple[str, ...], up: Servers, folder: Path, chosen: argparse.Namespace) -> None:
    """Let a peer answer a small topic, and compare."""
    task = new_task(dimensions, up, folder, chosen, CHECKED, CHECKED_SALES)
    with started(peer, task) as process:
        until(CHECKED_SALES, peer, task, process)
        answer = peer.answer(task)
    sales = answers.read(task.bootstrap, CHECKED, CHECKED_SALES)
    answers.check(peer.name, answer, answers.right(sales, dimensions, up.sizes, up.missing))
    print(f"{peer.name}, {len(dimensions)} dimensions: right for {CHECKED_SALES:,} sales", file=sys.stderr, flush=True)
    shutil.rmtree(task.folder)


def timed(
    peer: Peer, dimensions: tuple[str, ...], up: Servers, folder: Path, chosen: argparse.Namespace
) -> dict[str, object]:
    task = new_task(dimensions, up, folder, chosen, TIMED, chosen.sales)
    with started(peer, task) as process:

        def look(share: float) -> Snapshot:
            done = until(int(chosen.sales * share), peer, task, process)
            return snapshot(done, by_kind(process.pid, up.pids), up.asked())

        first, last = look(WARM_UP), look(END)
        if last.done == first.done:
            raise TooShort(f"{peer.name} had {first.done:,} of {chosen.sales:,} sales at the first look; give more")
        found = between(first, last)
        found["peak megabytes"] = peaks(by_kind(process.pid, up.pids))
        until(chosen.sales, peer, task, process)
    shutil.rmtree(task.folder)
    return found


def new_task(
    dimensions: tuple[str, ...], up: Servers, folder: Path, chosen: argparse.Namespace, topic: str, messages: int
) -> Task:
    info = up.stack.info()
    return Task(
        place=tempfile.mkdtemp(dir=folder), bootstrap=info.bootstrap, topic=topic, messages=messages,
        host=info.host, port=info.port, user=info.reader.user, password=info.reader.password, database=info.database,
        kind=up.stack.database.kind, dimensions=dimensions, cached_rows=chosen.cached_rows, memory=chosen.memory,
        batch=min(chosen.batch, chosen.sales // 10), cores=os.cpu_count() or 1, keep=topic == CHECKED,
    )  # fmt: skip


@contextlib.contextmanager
def started(peer: Peer, task: Task) -> Iterator[subprocess.Popen[bytes]]:
    """The peer's program in a group of its own; in the end it is killed with all that it started, and gone."""
    with (task.folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", peer.module, str(task.write())], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            cwd=ROOT, start_new_session=True,
        )  # fmt: skip
    try:
        yield process
    finally:
        # PySpark's workers have groups of their own.
        started_by_it = descendants(process.pid)
        for kill, pid in ((os.killpg, process.pid), *((os.kill, pid) for pid in started_by_it)):
            with contextlib.suppress(ProcessLookupError):
                kill(pid, signal.SIGKILL)
        process.wait()
        wait_until(lambda: not any(map(start_time, started_by_it)), f"all processes of {peer.name} are gone")


def until(sales: int, peer: Peer, task: Task, process: subprocess.Popen[bytes]) -> int:
    """Wait for so many sales; how many there are then."""
    done = 0

    def there() -> bool:
        nonlocal done
        if process.poll() is not None:
            said = (task.folder / "log").read_text(errors="replace")[-4_000:]
            raise PeerFailed(f"{peer.name} ended with {process.returncode} after {done:,} sales:\n{said}")
        done = peer.done(task)
        return done >= sales

    wait_until(there, f"{sales:,} sales by {peer.name}", _MOST_SECONDS)
    return done


if __name__ == "__main__":
    main()
