"""The floor: what each stage of a sale's way takes alone, beside the whole job, and beside what it cannot do without.

    python -m tests.benchmarks.floor [--turns 3] [--sales 2000000] [--products 2000000] [--memory "2 MiB"]

The peers' workload (deploy/docs/peers.md), one dimension. Microseconds of one core a sale, by the kernel's accounts:

    job     `millrace run`, from a fifth of the topic to nearly its end.
    alone   the job's own code in one process without Spark, one stage after the other, batch by batch: what this
            process, the broker and the database have spent is asked after each. `fetch` is what the keys that were
            asked for take where nothing but keys is asked for; `probe` is the rest of the join. There is one join,
            where the job has one in each worker, so a few keys less are asked for.
    bound   a stage that does nothing but what it cannot do without: tests/benchmarks/bounds.py.

All take turns; what is told is the median. The first fifth of the sales warms up and is not counted.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline import facts, source
from pipeline.config.settings import load
from pipeline.driver import worker
from pipeline.enrich import enrich
from pipeline.flow import SaleFlow, parse
from pipeline.generate.keys import Sizes, product_codes
from pipeline.kafka.client import client_of
from pipeline.kafka.cluster import cluster_of
from pipeline.kafka.ranges import Range, dealt_out
from pipeline.kafka.reader import messages
from pipeline.news import News
from pipeline.plan import Plan, resolve
from pipeline.warehouse.files import TableFiles
from pipeline.warehouse.port import Batch, FileAction
from pipeline.warehouse.warehouse import make_warehouse
from tests.benchmarks import bounds
from tests.benchmarks.end_to_end import RESULTS, host
from tests.benchmarks.peers import millrace, run, servers
from tests.benchmarks.peers.accounting import BROKER, DATABASE, processor_seconds
from tests.benchmarks.peers.servers import PARTITIONS, TIMED, Servers

DIMENSION = "product"
TASKS = 2  # of a batch, as two cores have
KEYS_A_QUERY, QUERIES = 2_000, 200
OWN = "own"  # this process

Micros = dict[str, float]  # of a core a sale, by who spent them


@dataclass
class Accounts:
    """Seconds of a core by stage, and by who spent them."""

    up: Servers
    spent: Counter[tuple[str, str]] = field(default_factory=Counter)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        before = self._so_far()
        yield
        for who, seconds in self._so_far().items():
            self.spent[name, who] += seconds - before[who]

    def _so_far(self) -> Micros:
        return {OWN: time.process_time(), **{who: processor_seconds(pid) for who, pid in self.up.pids.items()}}

    def of(self, stage: str, items: float) -> Micros:
        return {who: self.spent[stage, who] / items * 1e6 for who in (OWN, BROKER, DATABASE)}


class Alone:
    """The job's batches in this process."""

    def __init__(self, plan: Plan, accounts: Accounts) -> None:
        self.plan, self.accounts = plan, accounts
        settings = plan.settings
        self._limits = settings.worker
        self._cluster = cluster_of(client_of(settings.kafka.bootstrap, settings.kafka.java))
        self._warehouse = make_warehouse(
            settings.warehouse,
            plan.facts,
            [plan.rejects],
            settings.job.name,
            spark=None,  # type: ignore[arg-type]
        )
        self._warehouse.prepare()

    @property
    def asked(self) -> int:
        """Keys, of the database."""
        return self.flow(0).dimensions[0].join.master.reads.by_kind["lookup"].rows

    def flow(self, batch: int) -> SaleFlow:
        return worker.flow(self.plan, batch, News())

    def batch(self, batch: int, ranges: list[Range]) -> None:
        written: tuple[list[FileAction], list[FileAction]] = [], []
        for ours in dealt_out(ranges, TASKS):
            for every, some in zip(written, self._task(batch, ours), strict=True):
                every += some
        with self.accounts.stage("commit"):
            self._warehouse.commit(Batch(batch, written[0], {self.plan.rejects.name: written[1]}))

    def close(self) -> None:
        self._warehouse.close()
        self._cluster.close()
        worker.forget()

    def _task(self, batch: int, ranges: list[Range]) -> tuple[list[FileAction], list[FileAction]]:
        flow, stage = self.flow(batch), self.accounts.stage
        with stage("read"):
            windows = list(source.windows(messages(ranges, self._cluster, self._limits), self._limits))
        for window in windows:
            with stage("parse"):
                sales, rejected = parse(window, flow.parser_of, flow.sale_schema)
            with stage("join"):
                [enriched] = enrich(sales, flow.dimensions, self._limits)
            with stage("write"):
                rows = self._columns(flow.facts, enriched, batch)
                flow.facts.write(rows)
                flow.rejects.write(self._columns(flow.rejects, rejected, batch))
            self.last = window, rows
        with stage("write"):
            return flow.facts.close(), flow.rejects.close()

    def _columns(self, table: TableFiles, rows: pa.Table, batch: int) -> pa.Table:
        return facts.to_columns(table.contract, rows, self.plan.settings.job.name, batch)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--turns", type=int, default=3)
    options.add_argument("--sales", type=int, default=2_000_000)
    options.add_argument("--products", type=int, default=2_000_000)
    options.add_argument("--memory", default="2 MiB")
    options.add_argument("--batch", type=int, default=200_000)
    options.add_argument("--output", type=Path, default=RESULTS / "floor.json")
    chosen = options.parse_args()
    chosen.cached_rows = 0  # for peers that count in rows
    folder = Path(tempfile.mkdtemp(prefix="millrace-floor-"))
    turns: list[dict[str, Any]] = []
    told = {"host": host(), "workload": vars(chosen) | {"output": chosen.output.name}, "turns": turns}
    try:
        with servers.running(folder, Sizes(chosen.products, 1, 1), 1.0, 0.0, chosen.sales) as up:
            told["database"] = up.version()
            for _ in range(chosen.turns):
                job = run.timed(millrace.PEER, (DIMENSION,), up, folder, chosen)
                turns.append({"job": job["cpu us a sale"], **one_turn(up, folder, chosen)})
                print(json.dumps(turns[-1]), flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    told["medians"] = medians(turns)
    chosen.output.write_text(json.dumps(told, indent=1) + "\n")
    print(json.dumps(told["medians"], indent=1))


def one_turn(up: Servers, folder: Path, chosen: argparse.Namespace) -> dict[str, Any]:
    task = run.new_task((DIMENSION,), up, folder, chosen, TIMED, chosen.sales)
    file, assignments = millrace.prepare(task)
    accounts = Accounts(up)
    alone = Alone(resolve(load(file, assignments, environment={})), accounts)
    batches, each = chosen.sales // task.batch, task.batch // PARTITIONS
    warm_up = max(1, batches // 5)
    for batch in range(batches):
        if batch == warm_up:
            accounts.spent.clear()
            asked = alone.asked
        alone.batch(batch, [Range(TIMED, part, batch * each, (batch + 1) * each) for part in range(PARTITIONS)])
    sales = (batches - warm_up) * task.batch
    a_sale = (alone.asked - asked) / sales
    stages = {stage: accounts.of(stage, sales) for stage in ("read", "parse", "join", "write", "commit")}
    fetch = {who: a_sale * micros for who, micros in of_a_key(alone, chosen.products).items()}
    probe = {who: micros - fetch[who] for who, micros in stages.pop("join").items()}
    window, rows = alone.last
    bound = bounds.measured(up, task, window, rows, chosen.products, a_sale)
    alone.close()
    shutil.rmtree(task.folder)
    return {"keys asked a sale": a_sale, "alone": {**stages, "probe": probe, "fetch": fetch}, "bound": bound}


def of_a_key(alone: Alone, rows: int) -> Micros:
    """What asking for a key takes, of keys drawn evenly: such are those that a cache of the wanted ones leaves over."""
    master, random = alone.flow(0).dimensions[0].join.master, np.random.default_rng(0)
    questions = [product_codes(random.integers(0, rows, KEYS_A_QUERY)) for _ in range(QUERIES)]
    with alone.accounts.stage("keys"):
        for keys in questions:
            master.lookup(keys)
    return alone.accounts.of("keys", KEYS_A_QUERY * QUERIES)


def medians(turns: list[dict[str, Any]]) -> dict[str, Any]:
    """Of numbers that stand in the same place."""
    first = turns[0]
    return {
        name: medians([turn[name] for turn in turns]) if isinstance(first[name], dict)
        else round(statistics.median(turn[name] for turn in turns), 4)
        for name in first
    }  # fmt: skip


if __name__ == "__main__":
    main()
