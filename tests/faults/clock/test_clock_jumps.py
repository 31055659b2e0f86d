"""The clock of a job's machine is set by an hour while it runs: forwards, and back, and back once more."""

from __future__ import annotations

import re
import time
import urllib.request
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable

from pipeline.generate.keys import Sizes
from pipeline.generate.run import generate
from pipeline.generate.seed import seed
from pipeline.generate.workload import Workload
from pipeline.laptop.stack.stack import Stack
from tests.faults.clock import jumping
from tests.faults.clock.jumping import JumpingClock
from tests.kit.running import Job

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SIZES = Sizes(products=200, customers=100, stores=20)
SALES = 300  # at once
HOUR = 3_600.0
WITHIN = 30.0  # seconds until a change in the master is seen: the job goes on, and what it remembers expires

# What forgets a row that has changed: the feed alone, or its age alone.
BY_FEED = {"master__feed": "binlog", "dimensions__product__max_staleness": "12 h"}
BY_AGE = {"master__feed": "off", "dimensions__product__max_staleness": "2 s"}


class Shop:
    """Sales, and what the job makes of them."""

    def __init__(self, job: Job, stack: Stack, database: str, topic: str) -> None:
        self.job, self._stack, self._database, self._topic = job, stack, database, topic
        self.sent = self._next = 0

    def sell(self) -> set[str]:
        """Categories of the products in the facts of these sales."""
        workload = Workload(topics={self._topic: 1.0}, sizes=SIZES, first_sale=self._next)
        kafka = self._stack.kafka.bootstrap
        sent = generate(bootstrap=kafka, workload=workload, messages=SALES, partitions=1, progress=False)
        before, self.sent, self._next = self.sent, self.sent + sent.messages, sent.next_sale
        self.job.wait_for(self.sent, WITHIN * 2)
        rows = self.facts.to_pyarrow_table(columns=["offset", "product_category"]).to_pylist()
        return {row["product_category"] for row in rows if row["offset"] >= before}

    def change(self, category: str) -> float:
        """Seconds until sales are given the new category alone."""
        self._stack.database.execute(f"UPDATE product SET category = '{category}'", database=self._database)
        began = time.monotonic()
        while (seen := self.sell()) != {category}:
            assert time.monotonic() - began < WITHIN, f"{seen} after {WITHIN:g} s:\n{self.job.tail()}"
        return time.monotonic() - began

    @property
    def facts(self) -> DeltaTable:
        return DeltaTable(f"{self.job.settings['warehouse.path']}/fact_sales")

    @property
    def committed_ahead(self) -> float:
        """Seconds by which the last commit is later than it was, by what it says itself."""
        return self.facts.history(1)[0]["timestamp"] / 1_000 - time.time()

    def metric(self, name: str) -> float:
        [*_, address] = re.findall(r"http://\S+/metrics", self.job.log.read_text())
        with urllib.request.urlopen(address, timeout=5) as answer:
            text = answer.read().decode()
        return sum(float(value) for value in re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", text, re.MULTILINE))


@pytest.mark.skipif(not jumping.is_possible(), reason=jumping.NEEDED)
@pytest.mark.parametrize("remembers", [BY_FEED, BY_AGE], ids=["by feed", "by age"])
def test_a_job_goes_on_with_whatever_hour_it_is_and_what_it_remembers_expires_in_time(
    stack: Stack, master_database: str, topic: str, remembers: dict[str, str], tmp_path: Path,
    reconciled: Callable[..., None],
) -> None:  # fmt: skip
    with stack.database.connect("owner", master_database) as connection:
        seed(connection, SIZES, progress=False)
    clock = JumpingClock(tmp_path)
    job = Job(tmp_path, replace(stack.info(), database=master_database), topic, **remembers)
    job.environment = clock.environment
    # Spark looks at any moment whether its executor still lives: here in each second, and not in each minute.
    job.settings["spark.conf.spark.network.timeoutInterval"] = "1s"
    shop, began = Shop(job, stack, master_database, topic), time.monotonic()
    with job:
        assert shop.sell()
        for turn, ahead in enumerate([HOUR, 0.0, -HOUR, 0.0]):
            clock.set(ahead)
            shop.change(f"turn {turn}")
            assert abs(shop.committed_ahead - ahead) < 60
            if remembers is BY_FEED:
                assert shop.metric("millrace_feed_up") == 1
                assert 0 <= shop.metric("millrace_feed_lag_seconds") <= max(ahead, 0) + 10
        # What took long by the wall clock took no time.
        assert 0 < shop.metric("millrace_join_seconds_total") < time.monotonic() - began
        assert shop.metric("millrace_messages_total") == shop.sent
        said = job.log.read_text()
        assert said.count("the clock was set back by 3600 s") == 2
        assert "Removing executor" not in said  # with what it has in hand, for want of a sign of life for an hour
        assert job.stop() == 0, job.tail()
    reconciled(job, None)
