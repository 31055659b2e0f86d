"""The whole proof of a moving master: a job and a sync beside it, both servers and the job broken once, and everything
that came of it held against what the database and Kafka themselves say."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from pipeline import replay
from pipeline.config.settings import load
from pipeline.generate.keys import Sizes
from pipeline.generate.run import generate
from pipeline.generate.workload import Workload
from pipeline.laptop.stack.stack import Stack
from pipeline.plan import Plan, resolve
from pipeline.repair import Wishes, repair
from pipeline.warehouse import record
from tests.kit.audit import Audit
from tests.kit.moving_master import MovingMaster, Verdict
from tests.kit.running import Job, wait_until

DIMENSIONS = ("product", "customer", "store")
LIFE = "1 h"  # of rows and absences in memory: only the feed makes anybody forget them
# As the audit has them.
PRODUCT = {
    "product_code": "VARCHAR(32) CHARACTER SET utf8mb4", "product_key": "BIGINT", "updated_at": "TIMESTAMP(6) NULL",
    "category": "VARCHAR(40) CHARACTER SET utf8mb4", "brand": "VARCHAR(40) CHARACTER SET utf8mb4",
}  # fmt: skip
_FIRST = 2_000  # sales, before anything changes


@dataclass
class Figures:
    """What the job's own metrics said while it ran."""

    used: dict[str, float] = field(default_factory=dict)  # bytes of the joins' budgets, the most
    limit: dict[str, float] = field(default_factory=dict)
    worker: float = 0.0  # bytes, the largest resident set


@dataclass
class MovingProof:
    stack: Stack
    database: str
    topic: str
    folder: Path
    sizes: Sizes
    seconds: float
    rate: float  # sales a second
    changes: float = 200.0
    figures: Figures = field(default_factory=Figures)
    away: tuple[float, float] = (0.0, 0.0)  # from when until when the database was
    sent: int = 0

    def run(self) -> None:
        """Sales for so long, under changes of the master; in the middle the job is killed, then the database."""
        self.moving = MovingMaster(self.stack, self.database, self.sizes, self.changes)
        self.audit = Audit(self._execute, "product", PRODUCT)
        self.audit.make()
        info = self.stack.info()
        self.job = Job(self.folder, info, self.topic, master__database=self.database, master__feed="binlog")
        for name in DIMENSIONS:
            self.job.settings |= {f"dimensions.{name}.{life}": LIFE for life in ("max_staleness", "absent_staleness")}
            self.job.settings[f"dimensions.{name}.history"] = "type 2"
        workload = Workload(topics={self.topic: 1.0}, sizes=self.sizes)
        sales = partial(generate, bootstrap=info.bootstrap, workload=workload, progress=False)
        assert self._sync("--once").wait(120) == 0
        self.behind = self.audit.behind_now()
        self.sent = sales(messages=_FIRST).messages
        with self.job, self._following():
            self.job.wait_for(self.sent)
            with self.moving, self._selling(sales):
                total = _FIRST + self.seconds * self.rate
                self._wait_for(0.3 * total)
                self.job.kill()
                self.job.start()
                self._wait_for(0.6 * total)
                killed = time.time()
                self.stack.database.kill()
                self.stack.database.start()
                self.away = killed, time.time()
                self._wait_for(0.8 * total)
            self.job.wait_for(self.sent, limit=400)
            self._look()
            assert self.job.stop() == 0, self.job.tail()
        assert self._sync("--once").wait(120) == 0

    @property
    def plan(self) -> Plan:
        return resolve(load(None, self.job.assignments, {}))

    @property
    def facts(self) -> DeltaTable:
        return DeltaTable(f"{self.job.settings['warehouse.path']}/fact_sales")

    def verdict(self) -> Verdict:
        return self.moving.judge(self.facts)

    def distinct(self) -> int:
        identities = self.facts.to_pyarrow_table(columns=["topic", "partition", "offset"])
        return len(identities.group_by(identities.column_names).aggregate([]))

    def heal(self) -> list[str]:
        return list(repair(self.plan, Wishes()))

    def unknown_although_there(self) -> set[str]:
        table = self.facts.to_pyarrow_table(columns=["product_code", "product_key"])
        rows = table.group_by(table.column_names).aggregate([]).to_pylist()
        unknown = {row["product_code"] for row in rows if row["product_key"] == -1}
        return unknown & {code for (code,) in self._execute("SELECT product_code FROM product")}

    def differing_histories(self) -> list[str]:
        """Products whose history is not the one that the database's triggers have kept."""
        kept = self.audit.states(self.behind)
        found = self.audit.states_in(DeltaTable(f"{self.job.settings['warehouse.path']}/dim_product"))
        return sorted(code for code in kept.keys() | found.keys() if kept.get(code) != found.get(code))

    def batches(self) -> list[int]:
        said = (record.decode(commit.get(record.USER_METADATA)) for commit in self.facts.history())
        return sorted(of.batch for of in said if of and of.note.get("offsets"))

    def replays(self, batches: int, seed: int) -> list[replay.Verdict]:
        plan = self.plan
        chosen = random.Random(seed).sample(self.batches(), batches)
        return [replay.replay(plan, replay.Wishes(number)) for number in sorted(chosen)]

    def replayed_alone(self) -> dict[str, float]:
        """The largest batch, by the command: what it takes."""
        history = (record.decode(commit.get(record.USER_METADATA)) for commit in self.facts.history())
        sizes = {of.batch: sum(n for *_, n in of.note.get("offsets", {}).values()) for of in history if of}
        largest = max(sizes, key=lambda batch: sizes[batch])
        given = [part for assignment in self.job.assignments for part in ("--set", assignment)]
        command = [sys.executable, "-m", "pipeline.cli", "replay", "--batch", str(largest), *given]
        began = time.monotonic()
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=self.folder)
        _, status, used = os.wait4(child.pid, 0)
        return {
            "messages": sizes[largest], "exit code": os.waitstatus_to_exitcode(status),
            "seconds": time.monotonic() - began, "resident set, most": used.ru_maxrss * 1024,
        }  # fmt: skip

    def _wait_for(self, sales: float) -> None:
        def is_there() -> bool:
            self._look()
            return self.job.committed() >= sales

        wait_until(is_there, f"{sales:,.0f} facts", 400)

    def _look(self) -> None:
        """At the metrics. A job that starts has none yet."""
        addresses = re.findall(r"http://\S+/metrics", self.job.log.read_text())
        try:
            with urllib.request.urlopen(addresses[-1], timeout=5) as answer:
                text = answer.read().decode()
        except (OSError, IndexError):
            return
        for name in DIMENSIONS:
            parts = re.findall(rf'^millrace_budget_used_bytes{{dimension="{name}",[^}}]*}} (\S+)$', text, re.MULTILINE)
            used = sum(map(float, parts))
            self.figures.used[name] = max(self.figures.used.get(name, 0.0), used)
            for limit in re.findall(rf'^millrace_budget_limit_bytes{{dimension="{name}"}} (\S+)$', text, re.MULTILINE):
                self.figures.limit[name] = max(self.figures.limit.get(name, 0.0), float(limit))
        for peak in re.findall(r"^millrace_worker_peak_bytes (\S+)$", text, re.MULTILINE):
            self.figures.worker = max(self.figures.worker, float(peak))

    @contextmanager
    def _selling(self, sales: Callable[..., Any]) -> Iterator[None]:
        def sell() -> None:
            self.sent += sales(seconds=self.seconds, rate=self.rate).messages

        selling = threading.Thread(target=sell)
        selling.start()
        try:
            yield
        finally:
            selling.join()

    @contextmanager
    def _following(self) -> Iterator[None]:
        """`millrace sync --follow` beside the job."""
        following = self._sync("--follow", "--every", "2 s")
        try:
            yield
        finally:
            following.terminate()
            ended = following.wait(60)
        assert ended == 0, (self.folder / "sync.log").read_text()[-2_000:]

    def _sync(self, *words: str) -> subprocess.Popen[bytes]:
        given = [part for assignment in self.job.assignments for part in ("--set", assignment)]
        with (self.folder / "sync.log").open("ab") as log:
            command = [sys.executable, "-m", "pipeline.cli", "sync", *words, *given]
            return subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder)

    def _execute(self, *statements: str) -> list[tuple[Any, ...]]:
        with self.stack.database.connect("admin", self.database, charset="utf8mb4") as connection:
            with connection.cursor() as cursor:
                cursor.execute("SET time_zone = '+00:00'")
                for statement in statements:
                    cursor.execute(statement)
                found = list(cursor.fetchall())
            connection.commit()
        return found


def told(proof: MovingProof, began: float) -> dict[str, Any]:
    """All of it, as figures."""
    verdict, figures = proof.verdict(), proof.figures
    away, back = proof.away
    soon = [away <= sent <= back + 10 for sent in verdict.stale_sent]
    healed = proof.heal()
    replays = proof.replays(10, seed=7)
    return {
        "server": proof.stack.database.kind, "seconds": proof.seconds, "sales a second": proof.rate,
        "changes": proof.moving.changes, "sent": proof.sent, "facts": verdict.facts, "distinct facts": proof.distinct(),
        "of products that changed": verdict.of_changed, "with a row that never was": verdict.never_was,
        "with a row that had been replaced when the sale was sent": len(verdict.stale),
        "longest seconds": max(verdict.stale, default=0.0),
        "of these sent while the database was away, or in the ten seconds after": sum(soon),
        "longest of the others": max(
            (late for late, is_soon in zip(verdict.stale, soon, strict=True) if not is_soon), default=0.0
        ),
        "database away, seconds": back - away, "repair": healed,
        "unknown although the row is there": len(proof.unknown_although_there()),
        "products whose history differs from the triggers'": len(proof.differing_histories()),
        "budget used, most": figures.used, "budget": figures.limit, "worker's resident set, most": figures.worker,
        "batches": len(proof.batches()),
        "replayed": [
            {"batch": one.batch.number, "equal": one.ok, "facts": one.facts,
             "dimensions": {name: vars(of) for name, of in one.dimensions.items()}, "notes": one.notes}
            for one in replays
        ],
        "the largest batch replayed by the command": proof.replayed_alone(),
        "took": time.time() - began,
    }  # fmt: skip
