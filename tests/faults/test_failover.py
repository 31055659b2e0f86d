"""Another host takes the database's place under a running job: no sale is given a row that only the dead one had."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable

from pipeline.generate.keys import Sizes
from pipeline.generate.run import generate
from pipeline.generate.seed import seed
from pipeline.generate.workload import Workload
from pipeline.laptop.stack import ports
from pipeline.laptop.stack.ports import LOOPBACK
from pipeline.laptop.stack.stack import Stack
from tests.kit.fault_proxy import FaultProxy
from tests.kit.replicated import ReplicatedDatabase, first_server
from tests.kit.running import Job, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.mysql, pytest.mark.timeout(240)]

SIZES = Sizes(products=400, customers=100, stores=20)
SALES = 2_000  # of a phase
LIFE = "1 h"  # of rows and absences in memory: only the feed makes anybody forget them
LATE = "product_key % 10 = 0"  # products whose rows come when the first host is dead


@pytest.fixture
def first(tmp_path: Path) -> Iterator[ReplicatedDatabase]:
    server = first_server(tmp_path / "first")
    server.start()
    with server.connect("owner") as connection:
        seed(connection, SIZES, progress=False)
    change(server, f"CREATE TABLE late AS SELECT * FROM product WHERE {LATE}", f"DELETE FROM product WHERE {LATE}")
    yield server
    server.stop()


@pytest.fixture
def second(first: ReplicatedDatabase, tmp_path: Path) -> Iterator[ReplicatedDatabase]:
    server = first.replica(tmp_path / "second")
    yield server
    server.stop()


def change(server: ReplicatedDatabase, *statements: str) -> None:
    server.execute(*statements, database="master")


class Sold:
    """Sales of one partition, phase after phase, and what the job has made of each phase."""

    def __init__(self, job: Job, bootstrap: str, topic: str) -> None:
        self.job, self._bootstrap, self._topic = job, bootstrap, topic
        self._sent = self._next = 0

    def facts(self) -> Counter[str | None]:
        """Send a phase's sales; by category, the facts that were made of them."""
        workload = Workload(topics={self._topic: 1.0}, sizes=SIZES, first_sale=self._next)
        sent = generate(bootstrap=self._bootstrap, workload=workload, messages=SALES, partitions=1, progress=False)
        before, self._sent, self._next = self._sent, self._sent + sent.messages, sent.next_sale
        self.job.wait_for(self._sent)
        return Counter(
            row["product_category"] for row in self.rows() if before <= row["offset"] and row["product_key"] != -1
        )

    def rows(self) -> list[dict[str, object]]:
        table = DeltaTable(f"{self.job.settings['warehouse.path']}/fact_sales")
        return table.to_pyarrow_table(columns=["offset", "product_key", "product_category"]).to_pylist()

    def unknown(self) -> int:
        return sum(row["product_key"] == -1 for row in self.rows())


def test_a_change_that_died_with_its_host_is_forgotten_and_what_changes_on_the_other_one_is_seen_and_heals(
    stack: Stack, topic: str, first: ReplicatedDatabase, second: ReplicatedDatabase, tmp_path: Path,
    reconciled: Callable[..., None],
) -> None:  # fmt: skip
    [port] = ports.choose(1)
    account = first.accounts.reader
    with FaultProxy(port, first.port) as line:
        info = replace(stack.info(), host=LOOPBACK, port=port, reader=account)
        lives = {f"dimensions__product__{life}": LIFE for life in ("max_staleness", "absent_staleness")}
        job = Job(tmp_path, info, topic, master__feed="binlog", warehouse__heal_rows_per_minute="100000", **lives)
        sold = Sold(job, stack.kafka.bootstrap, topic)
        change(first, "UPDATE product SET category = 'of old'")
        with job:
            assert sold.facts().keys() == {"of old"}
            change(first, "UPDATE product SET category = 'before'")
            assert sold.facts().keys() == {"before"}  # of memory, but for the feed
            second.catch_up(first)
            second.hear_nothing_more()
            change(first, "UPDATE product SET category = 'lost'")
            assert sold.facts().keys() == {"lost"}
            unknown = sold.unknown()
            assert unknown > SALES / 10  # the first ten products are sold most

            first.kill()
            second.promote()
            line.target = second.port
            wait_until(lambda: "is another server than before" in job.log.read_text(), "the feed on the other host")
            assert sold.facts().keys() == {"before"}
            change(second, "UPDATE product SET category = 'after'")
            assert sold.facts().keys() == {"after"}
            change(second, "INSERT INTO product SELECT * FROM late")
            wait_until(lambda: sold.unknown() == 0, "all facts healed")
            assert "after" in sold.facts()
            assert job.stop() == 0, job.tail()
        reconciled(job, None)
