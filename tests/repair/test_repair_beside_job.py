"""Facts healed while the job appends, by a repair or by the job itself: nothing is lost or doubled, and the job goes
on where it was."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable

from pipeline.generate.keys import Sizes
from pipeline.generate.run import generate
from pipeline.generate.seed import seed
from pipeline.generate.workload import Workload
from pipeline.laptop.stack.stack import Stack, StackInfo
from tests.kit.running import Job, wait_until

SIZES = Sizes(products=300, customers=200, stores=20)
SCRIPT = Path(__file__).parents[2] / "jobs" / "repair_unknown.py"


def unknown_products(job: Job) -> int:
    facts = DeltaTable(f"{job.settings['warehouse.path']}/fact_sales").to_pyarrow_table(columns=["product_key"])
    return facts["product_key"].to_pylist().count(-1)


def repaired(job: Job) -> str:
    words = [word for assignment in job.assignments for word in ("--set", assignment)]
    done = subprocess.run([sys.executable, SCRIPT, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def shop(stack: Stack, master_database: str) -> StackInfo:
    """Master tables that lack a third of the products."""
    with stack.database.connect("owner", master_database) as connection, connection.cursor() as cursor:
        seed(connection, SIZES, progress=False)
        cursor.execute("CREATE TABLE late AS SELECT * FROM product WHERE product_key % 3 = 0")
        cursor.execute("DELETE FROM product WHERE product_key % 3 = 0")
        connection.commit()
    return replace(stack.info(), database=master_database)


def bring_the_late_products(stack: Stack, shop: StackInfo, which: str = "TRUE") -> None:
    with stack.database.connect("owner", shop.database) as connection, connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO product SELECT * FROM late WHERE {which}")
        connection.commit()


def could_be_healed(stack: Stack, shop: StackInfo, job: Job) -> int:
    """Unknown facts whose product has a row."""
    facts = DeltaTable(f"{job.settings['warehouse.path']}/fact_sales")
    rows = facts.to_pyarrow_table(columns=["product_key", "product_code"]).to_pylist()
    with stack.database.connect("owner", shop.database) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT product_code FROM product")
        there = {code for (code,) in cursor.fetchall()}
    return sum(row["product_key"] == -1 and row["product_code"] in there for row in rows)


def send(shop: StackInfo, topic: str, messages: int, first_sale: int = 0) -> int:
    """The number of the sale that comes next."""
    workload = Workload(topics={topic: 1.0}, sizes=SIZES, unknown=0.02, null_keys=0.02, first_sale=first_sale)
    return generate(
        bootstrap=shop.bootstrap, workload=workload, messages=messages, partitions=2, progress=False
    ).next_sale


@pytest.mark.mysql
def test_products_that_come_after_their_sales_are_in_the_facts_in_the_end(
    stack: Stack, shop: StackInfo, topic: str, tmp_path: Path, reconciled
) -> None:
    following = send(shop, topic, 2_000)
    with Job(tmp_path, shop, topic, job__max_offsets_per_trigger="300") as job:
        job.wait_for(2_000)
        assert unknown_products(job) > 500
        bring_the_late_products(stack, shop)
        send(shop, topic, 2_000, following)
        said = repaired(job)  # while the job appends
        job.wait_for(4_000)
        assert job.stop() == 0, job.tail()
    assert " 0 healed" not in said.splitlines()[0]
    repaired(job)  # what the job had in its memory as absent
    reconciled(job, None)


@pytest.mark.slow
def test_a_job_that_starts_after_a_repair_goes_on_where_it_was(
    stack: Stack, shop: StackInfo, topic: str, tmp_path: Path, reconciled
) -> None:
    job = Job(tmp_path, shop, topic, job__trigger="available-now")
    following = send(shop, topic, 2_000)
    assert job.start().wait() == 0, job.tail()
    bring_the_late_products(stack, shop)
    repaired(job)
    send(shop, topic, 2_000, following)
    assert job.start().wait() == 0, job.tail()
    reconciled(job, None)


@pytest.mark.slow
def test_a_job_heals_by_itself_what_it_may_though_it_is_killed_in_the_middle(
    stack: Stack, shop: StackInfo, topic: str, tmp_path: Path, reconciled
) -> None:
    """After the kill it goes through all that is unknown; the keys of the second half are told by the feed."""
    settings = {"master__feed": "binlog", "warehouse__heal_rows_per_minute": "100000", "worker__window_sales": "150"}
    job = Job(tmp_path, shop, topic, job__max_offsets_per_trigger="300", **settings)
    following = send(shop, topic, 2_000)
    with job:
        job.wait_for(2_000)
        unknown = unknown_products(job)
        assert unknown > 500
        bring_the_late_products(stack, shop, "product_key % 2 = 0")
        following = send(shop, topic, 2_000, following)
        wait_until(lambda: unknown_products(job) < unknown, "the first facts are healed")
        job.kill()
        job.start()
        job.wait_for(4_000)
        wait_until(lambda: could_be_healed(stack, shop, job) == 0, "all are healed that may be")
        assert unknown_products(job) > 200, "those of the other half"
        bring_the_late_products(stack, shop, "product_key % 2 = 1")
        send(shop, topic, 2_000, following)
        job.wait_for(6_000)
        wait_until(lambda: could_be_healed(stack, shop, job) == 0, "the other half is healed, too")
        assert job.stop() == 0, job.tail()
    assert "Traceback" not in job.log.read_text()
    reconciled(job, None)
