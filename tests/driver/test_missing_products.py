"""A running job whose sales often have a product that the master lacks: it finds out which there are at all."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from pipeline.generate.keys import Sizes, product_codes
from pipeline.generate.seed import seed
from pipeline.laptop.stack.stack import Stack
from tests.driver.test_master_moves import joined, metric, send
from tests.kit.running import Job, wait_until

PRODUCTS, AT_ONCE = 3_000, 2_000
CODES = product_codes(np.arange(2 * PRODUCTS)).to_pylist()  # half of them have no row


@pytest.mark.slow
@pytest.mark.mysql
def test_missing_products_are_soon_not_asked_for_and_found_as_soon_as_they_come(
    tmp_path: Path, stack: Stack, master_database: str, topic: str
) -> None:
    owner = {"role": "owner", "database": master_database}
    with stack.database.connect(**owner) as connection:
        seed(connection, Sizes(PRODUCTS, 10, 10), progress=False)
    choose, rounds, sent = np.random.default_rng(3), itertools.count(1), 0
    # Of an absence nothing is remembered for longer than a batch, so that the cache alone would ask again and again.
    job = Job(
        tmp_path, stack.info(), topic, master__database=master_database, master__feed="binlog",
        dimensions__product__memory="256 KiB", dimensions__product__absent_staleness="2 s",
    )  # fmt: skip
    stack.kafka.create_topic(topic, 2)

    def sell(some: list[str]) -> int:
        nonlocal sent
        number, sent = next(rounds), sent + len(some)
        send(stack.info().bootstrap, topic, some, number, ago=5.0)  # of later ones nothing is told yet
        job.wait_for(sent)
        return number

    def answers() -> bool:
        sell(choose.choice(CODES, AT_ONCE).tolist())
        return metric(job, 'millrace_key_filters{dimension="product"}') == 2

    def nearly_all_are_ruled_out() -> bool:
        before = metric(job, 'millrace_ruled_out_sales_total{dimension="product"}')
        sell(CODES)
        return metric(job, 'millrace_ruled_out_sales_total{dimension="product"}') - before > 0.9 * PRODUCTS

    with job:
        wait_until(answers, "both workers know all keys", limit=240)
        # A batch that a busy machine holds up for two seconds asks for all keys, as it must.
        wait_until(nearly_all_are_ruled_out, "those that are missing are not asked for", limit=120)
        assert metric(job, 'millrace_master_rows_total{dimension="product",kind="keys"}') >= 2 * PRODUCTS
        come, gone, other = CODES[PRODUCTS], CODES[0], CODES[PRODUCTS + 1]
        seen = metric(job, 'millrace_feed_changes_total{dimension="product"}')
        stack.database.execute(
            f"UPDATE product SET product_code = '{other}' WHERE product_code = '{CODES[1]}'",
            f"DELETE FROM product WHERE product_code = '{gone}'",
            f"INSERT INTO product SELECT '{come}', product_key + 1000000, name, category, brand, updated_at "
            f"FROM product WHERE product_code = '{CODES[2]}'",
            **owner,
        )
        wait_until(
            lambda: metric(job, 'millrace_feed_changes_total{dimension="product"}') >= seen + 4, "it is told", 20
        )
        found = joined(job, sell(CODES))
        there = {code for code, (key, _) in found.items() if key != -1}
        assert there == {*CODES[2:PRODUCTS], come, other}
        assert job.stop() == 0, job.tail()
