"""The load contract of a real job with two workers, as the database counts it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from deltalake import DeltaTable

from pipeline.generate.keys import Sizes, product_codes
from pipeline.generate.seed import seed
from pipeline.laptop.stack.stack import Stack
from tests.driver.test_master_moves import metric, send
from tests.kit.running import Job, wait_until
from tests.kit.server_load import ServerLoad

STATEMENTS, ROWS, CONNECTIONS = 40, 2_000, 3
PRODUCTS, SALES, BATCH = 10_000, 12_000, 3_000


@pytest.fixture
def capped(tmp_path: Path, stack: Stack, master_database: str, topic: str) -> Callable[..., Job]:
    """A job that is held to the contract, with these settings besides. Half of the products that its sales name have no
    row, and no product is wanted more than another."""
    with stack.database.connect(role="owner", database=master_database) as connection:
        seed(connection, Sizes(PRODUCTS, 10, 10), progress=False)
    stack.kafka.create_topic(topic, 4)
    sell(stack, topic, 1)

    def job(**settings: str) -> Job:
        return Job(
            tmp_path, stack.info(), topic, master__database=master_database,
            master__queries_per_second=str(STATEMENTS), master__rows_per_second=str(ROWS),
            master__connections=str(CONNECTIONS), spark__master="local[2,4]",
            job__max_offsets_per_trigger=str(BATCH), **settings,
        )  # fmt: skip

    return job


@pytest.mark.slow
@pytest.mark.mysql
def test_two_workers_one_of_which_is_killed_ask_for_no_more_than_the_contract_and_every_sale_arrives(
    capped: Callable[..., Job], stack: Stack, master_database: str
) -> None:
    job = capped(master__feed="off", dimensions__product__max_staleness="1 s")
    with ServerLoad(stack, master_database) as seen, job:
        wait_until(lambda: job.committed() >= BATCH, "the first batch is committed")
        os.kill(job.workers()[0], signal.SIGKILL)
        job.wait_for(SALES)
        assert metric(job, 'millrace_master_limit{of="rows"}') == ROWS
        assert metric(job, "millrace_master_connections") <= CONNECTIONS
        assert metric(job, 'millrace_master_wait_seconds_total{dimension="product",kind="lookup"}') > 0
    statements, rows = seen.most_in_a_second()
    assert statements <= 1.05 * STATEMENTS
    assert 0.5 * ROWS < rows <= 1.05 * ROWS
    assert 1 <= seen.most_sessions <= CONNECTIONS


@pytest.mark.slow
@pytest.mark.mysql
def test_a_job_that_heals_asks_for_no_more_than_the_contract_either(
    capped: Callable[..., Job], stack: Stack, master_database: str, topic: str
) -> None:
    with capped(master__feed="binlog", warehouse__heal_rows_per_minute="1000000") as job:
        job.wait_for(SALES)
        late = unknown(job)
        assert late > SALES // 3
        come = product_codes(np.arange(PRODUCTS, 2 * PRODUCTS)).to_pylist()
        rows = ", ".join(f"('{code}', {10**6 + number}, 'late', 'tea', 'own')" for number, code in enumerate(come))
        columns = "product_code, product_key, name, category, brand"
        stack.database.execute(f"INSERT INTO product ({columns}) VALUES {rows}", role="owner", database=master_database)
        with ServerLoad(stack, master_database) as seen:
            # While the facts are healed more sales come, whose keys nobody has asked for yet.
            sell(stack, topic, 2)
            job.wait_for(2 * SALES)
            wait_until(lambda: unknown(job) == 0, "every fact is healed")
        # A turn of healing is counted when it ends, which is after its commits.
        healed = 'millrace_healed_facts_total{dimension="product"}'
        wait_until(lambda: metric(job, healed) >= late, "every healed fact is counted")
    statements, rows_sent = seen.most_in_a_second()
    assert statements <= 1.05 * STATEMENTS
    assert 0.5 * ROWS < rows_sent <= 1.05 * ROWS
    assert 1 <= seen.most_sessions <= CONNECTIONS + 1  # the feed has a session of its own


def sell(stack: Stack, topic: str, round_: int) -> None:
    numbers = np.random.default_rng(round_).integers(0, 2 * PRODUCTS, SALES)
    send(stack.info().bootstrap, topic, product_codes(numbers).to_pylist(), round_)


def unknown(job: Job) -> int:
    """Facts without a product."""
    keys = DeltaTable(f"{job.settings['warehouse.path']}/fact_sales").to_pyarrow_table(columns=["product_key"])
    return int((keys["product_key"].to_numpy() == -1).sum())
