"""A topic and a job's tables of it, written as the job writes them: by its own steps, without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from deltalake import DeltaTable

from pipeline.config.resources import schemas
from pipeline.config.settings import load
from pipeline.driver import worker
from pipeline.driver.origin import Origin
from pipeline.kafka import reader
from pipeline.kafka.client import client_of
from pipeline.kafka.cluster import cluster_of
from pipeline.kafka.ranges import Range
from pipeline.laptop.stack.stack import StackInfo
from pipeline.news import News
from pipeline.plan import Plan, resolve
from pipeline.reconcile import Verdict, reconcile
from pipeline.reentry.backfill import Wishes as Backfill
from pipeline.reentry.backfill import backfill
from pipeline.reentry.replay import Replayed, replay
from pipeline.reentry.replay import Wishes as Replay
from pipeline.warehouse.port import Batch, Warehouse
from pipeline.warehouse.warehouse import make_warehouse

Row = dict[str, Any]

SALE = {
    "sale_id": "s", "sold_at": "2026-11-18T09:30:00Z", "store_code": "S-00001", "product_code": "P-00000001",
    "customer_number": 100_000, "quantity": 1, "unit_price": 12.5, "currency": "EUR",
}  # fmt: skip


def sale(number: int, **other: Any) -> bytes:
    return json.dumps({**SALE, "sale_id": f"s-{number}", **other}).encode()


@dataclass
class World:
    info: StackInfo
    topic: str
    folder: Path
    settings: tuple[str, ...] = ()
    origin: Origin = field(default_factory=Origin)

    @property
    def assignments(self) -> list[str]:
        given = {
            "kafka.bootstrap": self.info.bootstrap, "kafka.topics": self.topic, "master.host": self.info.host,
            "master.port": self.info.port, "master.user": self.info.reader.user,
            "master.password": self.info.reader.password, "master.database": self.info.database,
            "warehouse.path": self.folder / "warehouse", "job.checkpoint": self.folder / "checkpoint",
        }  # fmt: skip
        return [*(f"{name}={value}" for name, value in given.items()), *self.settings]

    @property
    def plan(self) -> Plan:
        return resolve(load(None, self.assignments, {}))

    def under(self, *settings: str) -> World:
        return replace(self, settings=(*self.settings, *settings))

    def mended(self, **properties: Any) -> World:
        """The same world, and some fields of a sale may be other than the shipped contract says."""
        contract = json.loads((schemas() / "topics" / "sale.v1.json").read_text())
        for name, other in properties.items():
            contract["properties"][name] |= other
        folder = self.folder / "contracts" / "topics"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "sale.v1.json").write_text(json.dumps(contract))
        return self.under(f"contracts.folder={folder.parent}")

    def send(self, *values: bytes | None) -> None:
        producer = Producer({"bootstrap.servers": self.info.bootstrap})
        for value in values:
            producer.produce(self.topic, value, partition=0)
        assert producer.flush(30) == 0

    def warehouse(self) -> Warehouse:
        plan = self.plan
        opened = make_warehouse(plan.settings.warehouse, plan.facts, [plan.rejects], plan.settings.job.name, None)  # type: ignore[arg-type]
        opened.prepare()
        return opened

    def batch(self, number: int, first: int, end: int, warehouse: Warehouse | None = None) -> None:
        """A micro-batch of the job: these offsets."""
        plan, warehouse = self.plan, warehouse or self.warehouse()
        client = client_of(self.info.bootstrap, {})
        came = reader.messages([Range(self.topic, 0, first, end)], cluster_of(client), plan.settings.worker)
        answer = worker.flow(plan, number, News()).run(came)
        self.origin = self.origin.after(answer.offsets, {}, "c1")
        sides = {plan.rejects.name: answer.rejects}
        warehouse.commit(Batch(number, answer.facts, sides, self.origin.as_note()))

    def replay(self, **wishes: Any) -> Replayed:
        return replay(self.plan, Replay(**wishes))

    def backfill(self, since: str = "earliest", **wishes: Any) -> list[str]:
        return list(backfill(self.plan, Backfill(since, **wishes)))

    def verdict(self) -> Verdict:
        return reconcile(self.plan)

    def rows(self, table: str) -> list[Row]:
        return DeltaTable(f"{self.folder}/warehouse/{table}").to_pyarrow_table().sort_by("offset").to_pylist()

    @property
    def facts(self) -> list[Row]:
        return self.rows("fact_sales")

    @property
    def rejects(self) -> list[Row]:
        return self.rows("sales_rejects")

    def delete_facts(self, where: str) -> None:
        DeltaTable(f"{self.folder}/warehouse/fact_sales").delete(where)


def offsets(rows: Sequence[Row]) -> list[int]:
    return [row["offset"] for row in rows]


@contextmanager
def before(monkeypatch: Any, owner: Any, name: str, step: Any) -> Iterator[None]:
    """Once, something happens in front of a function of ours: the moment at which another process comes between."""
    was, pending = getattr(owner, name), [step]

    def first(*args: Any, **kwargs: Any) -> Any:
        if pending:
            pending.pop()()
        return was(*args, **kwargs)

    with monkeypatch.context() as patched:
        patched.setattr(owner, name, first)
        yield
    assert not pending, f"{name} was not called"
