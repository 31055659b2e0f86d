"""A master that changes under the sales, while the job is killed and the database goes away."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from deltalake import DeltaTable

from pipeline.config.settings import load
from pipeline.generate.keys import Sizes
from pipeline.generate.run import generate
from pipeline.generate.workload import Workload
from pipeline.laptop.stack.stack import Stack
from pipeline.plan import resolve
from pipeline.repair import Wishes, repair
from tests.kit.moving_master import MovingMaster
from tests.kit.running import Job, wait_until

SIZES = Sizes(products=500, customers=100, stores=20)
LIFE = "1 h"  # of rows and absences in memory: only the feed makes anybody forget them
BOUND = 2.0  # seconds


@pytest.mark.slow
def test_no_sale_gets_a_row_that_was_replaced_two_seconds_before_it_though_job_and_database_are_killed(
    tmp_path: Path, stack: Stack, master_database: str, topic: str
) -> None:
    moving = MovingMaster(stack, master_database, SIZES, changes=200)
    job = Job(tmp_path, stack.info(), topic, master__database=master_database, master__feed="binlog")
    for name in ("product", "customer", "store"):
        job.settings |= {f"dimensions.{name}.{life}": LIFE for life in ("max_staleness", "absent_staleness")}
    sales = partial(
        generate, bootstrap=stack.info().bootstrap, workload=Workload(topics={topic: 1.0}, sizes=SIZES), progress=False
    )
    sent = sales(messages=2_000).messages
    with job, moving:
        job.wait_for(sent)
        sent += sales(seconds=8, rate=2_000).messages
        wait_until(lambda: job.committed() > sent // 2, "half of them are in", 60)
        job.kill()
        sent += sales(seconds=3, rate=2_000).messages
        job.start()
        sent += sales(seconds=12, rate=2_000).messages
        stack.database.kill()
        stack.database.start()
        sent += sales(seconds=8, rate=2_000).messages
        job.wait_for(sent)
        assert job.stop() == 0, job.tail()
    facts = f"{job.settings['warehouse.path']}/fact_sales"
    verdict = moving.judge(DeltaTable(facts))
    assert verdict.facts == sent
    assert verdict.never_was == 0
    assert verdict.of_changed > sent // 2
    assert max(verdict.stale, default=0.0) <= BOUND
    identities = DeltaTable(facts).to_pyarrow_table(columns=["topic", "partition", "offset"])
    assert len(identities.group_by(identities.column_names).aggregate([])) == sent

    list(repair(resolve(load(None, job.assignments, {})), Wishes()))
    table = DeltaTable(facts).to_pyarrow_table(columns=["product_code", "product_key"])
    unknown = {row["product_code"] for row in table.to_pylist() if row["product_key"] == -1}
    with stack.database.connect("owner", master_database) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT product_code FROM product")
        assert not unknown & {code for (code,) in cursor.fetchall()}
