"""A job's batches over a master that changes between and within them, and the history that a sync keeps of it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from pipeline import replay
from pipeline.config.resources import schemas
from pipeline.driver import worker
from pipeline.driver.topics import Topics
from pipeline.generate.keys import Sizes
from pipeline.generate.seed import seed
from pipeline.history import Wishes as Sync
from pipeline.history import dimension, sync
from pipeline.kafka import reader
from pipeline.kafka.client import client_of
from pipeline.kafka.cluster import cluster_of
from pipeline.kafka.ranges import Range
from pipeline.laptop.stack.stack import Stack
from pipeline.master.open import open_images
from pipeline.news import News
from pipeline.replay import Verdict
from pipeline.replay.batch import CLOCKS, find
from pipeline.warehouse.port import Batch
from tests.kit.running import wait_until
from tests.reentry.reentry_world import World, sale

SIZES = Sizes(products=60, customers=20, stores=5)
KEPT = tuple(f"dimensions.{name}.history=type 2" for name in ("product", "customer", "store"))


Step = Callable[[], None]


def nothing() -> None: ...


@dataclass
class ReplayWorld(World):
    stack: Stack | None = None

    @staticmethod
    def made(stack: Stack, database: str, topic: str, folder: Path) -> ReplayWorld:
        stack.kafka.create_topic(topic, partitions=1)
        with stack.database.connect("owner", database) as connection:
            seed(connection, SIZES, progress=False)
        return ReplayWorld(replace(stack.info(), database=database), topic, folder, KEPT, stack=stack)

    def execute(self, *statements: str) -> None:
        assert self.stack
        with self.stack.database.connect("owner", self.info.database) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            connection.commit()

    def ask(self, query: str) -> Any:
        assert self.stack
        with self.stack.database.connect("owner", self.info.database) as connection, connection.cursor() as cursor:
            cursor.execute(query)
            [(value,)] = cursor.fetchall()
        return value

    def sync(self) -> None:
        with patch.object(dimension, "_UNTIL_ALL_ARE_SEEN", 0.0):  # nobody changes anything here in the meantime
            sync(self.plan, Sync(), threading.Event(), lambda line: None)

    @property
    def place(self) -> str:
        """Where the master's log ends."""
        return open_images(self.plan.settings.master, self.plan.dimensions["store"]).begin().place

    def sell(self, *codes: str | None, **other: Any) -> None:
        self.send(*(sale(number, product_code=code, **other) for number, code in enumerate(codes)))

    def keeping_when_facts_were_healed(self) -> ReplayWorld:
        folder = self.folder / "contracts" / "tables"
        folder.mkdir(parents=True)
        shipped = (schemas() / "tables" / "fact_sales.toml").read_text()
        column = '[[column]]\nname = "healed_at"\ntype = "timestamp"\nfrom = "fact.healed_at"\nmeaning = "when"\n'
        (folder / "fact_sales.toml").write_text(f"{shipped}\n{column}")
        return self.under(f"contracts.folder={folder.parent}")

    def batch_of(
        self, number: int, first: int, end: int, meanwhile: Step = nothing, too_late: Step = nothing, noting: str = ""
    ) -> None:
        """A micro-batch of these offsets. `meanwhile` happens when the place in the log is noted and the master not
        asked yet; `too_late` when it is asked and the place is not noted, which no job does."""
        plan, warehouse, place = self.plan, self.warehouse(), self.place
        meanwhile()
        worker.forget()
        cluster = cluster_of(client_of(self.info.bootstrap, {}))
        came = reader.messages([Range(self.topic, 0, first, end)], cluster, plan.settings.worker)
        answer = worker.flow(plan, number, News()).run(came)
        if too_late is not nothing:
            too_late()
            place = self.place
        topics = Topics(plan.settings.kafka).ids()
        self.origin = self.origin.after(answer.offsets, topics, "c1", noting or place, plan.fingerprint)
        warehouse.commit(Batch(number, answer.facts, {plan.rejects.name: answer.rejects}, self.origin.as_note()))

    def forget_messages(self, before: int) -> None:
        admin = AdminClient({"bootstrap.servers": self.info.bootstrap})
        next(iter(admin.delete_records([TopicPartition(self.topic, 0, before)]).values())).result(30)

    @property
    def now(self) -> str:
        """By the master's clock."""
        return f"{self.ask('SELECT UTC_TIMESTAMP(6)'):%Y-%m-%dT%H:%M:%S.%fZ}"

    def wait_until_it_is_history(self, batch: int) -> None:
        """What comes now comes after its commit by all clocks; MariaDB's log has whole seconds."""
        over = find(self.plan, replay.Wishes(batch)).committed.replace(tzinfo=None) + CLOCKS + timedelta(seconds=1)
        wait_until(lambda: self.ask("SELECT UTC_TIMESTAMP(6)") > over, "the batch is history")

    def again(self, number: int, **wishes: Any) -> Verdict:
        return replay.replay(self.plan, replay.Wishes(number, **wishes))
