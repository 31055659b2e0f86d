"""The job joins each sale with the row that was valid when it was sold, as Kafka and SQL prove from outside."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from deltalake import DeltaTable

from pipeline.generate.keys import Sizes
from pipeline.generate.run import generate
from pipeline.generate.seed import seed
from pipeline.generate.workload import Workload
from pipeline.laptop.stack.stack import Stack
from tests.kit import versions
from tests.kit.running import Job

SIZES = Sizes(products=300, customers=200, stores=20)


@pytest.mark.slow
def test_sales_before_and_after_a_change_have_the_row_of_their_time_whenever_the_job_runs(
    stack: Stack, master_database: str, topic: str, tmp_path: Path, reconciled
) -> None:
    before = Workload(topics={topic: 1.0}, sizes=SIZES, unknown=0.02, null_keys=0.02)
    shop = replace(stack.info(), database=master_database)
    sent = generate(bootstrap=shop.bootstrap, workload=before, messages=2_000, partitions=2, progress=False)
    changed = datetime.now(timezone.utc) + timedelta(microseconds=1)
    after = replace(before, first_sale=sent.next_sale)
    generate(bootstrap=shop.bootstrap, workload=after, messages=2_000, partitions=2, progress=False)
    with stack.database.connect("admin", master_database) as connection, connection.cursor() as cursor:
        seed(connection, SIZES, progress=False)
        cursor.execute("RENAME TABLE product TO plain")
        cursor.execute(versions.TABLE)
        for key, valid in (("2 * product_key", "NULL, %s"), ("2 * product_key + 1", "%s, NULL")):
            cursor.execute(
                f"INSERT INTO product SELECT product_code, {key}, category, brand, {valid}, updated_at FROM plain",
                (changed.replace(tzinfo=None),),
            )
        cursor.execute("DELETE FROM product WHERE product_key % 8 = 0")  # some were not there before
        connection.commit()
    contracts = str(versions.contract_in(tmp_path / "contracts"))
    job = Job(tmp_path, shop, topic, job__trigger="available-now", contracts__folder=contracts)
    job.settings |= {"dimensions.product.algorithm": "inlj", "dimensions.product.front_stage": "true"}
    assert job.start().wait() == 0, job.tail()
    reconciled(job, None)
    facts = DeltaTable(f"{job.settings['warehouse.path']}/fact_sales").to_pyarrow_table()
    assert len(facts) == 4_000
    found = Counter(
        (row["sold_at"] >= changed, row["product_key"] % 2 if row["product_key"] != -1 else None)
        for row in facts.select(["sold_at", "product_key"]).to_pylist()
    )
    assert found[False, 0] > 1_000
    assert found[True, 1] > 1_500
    assert found[False, None] > 2 * found[True, None] > 0
    assert found[False, 1] == found[True, 0] == 0
