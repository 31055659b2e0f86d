"""A running job over a master that changes: rows and absences in its memory would be good for an hour."""

from __future__ import annotations

import json
import re
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable

from pipeline.config.settings import load
from pipeline.generate.keys import Sizes, product_codes
from pipeline.generate.seed import seed
from pipeline.laptop.stack.stack import Stack
from pipeline.plan import resolve
from pipeline.reconcile.broker import Place
from pipeline.reconcile.why import why
from tests.kit.running import Job, wait_until

CODES = product_codes(np.arange(60)).to_pylist()  # the last ten have no row at first


def send(bootstrap: str, topic: str, codes: Sequence[str], round_: int, ago: float = 0.0) -> None:
    """As if they had been sent so many seconds ago."""
    producer, sent = Producer({"bootstrap.servers": bootstrap}), round((time.time() - ago) * 1e3)
    for number, code in enumerate(codes):
        sale = {
            "sale_id": f"r{round_}-{number}", "sold_at": "2026-11-19T10:00:00Z", "store_code": "S-00001",
            "product_code": code, "customer_number": 1, "quantity": 1, "unit_price": 1.5, "currency": "EUR",
        }  # fmt: skip
        producer.produce(topic, json.dumps(sale).encode(), timestamp=sent)
    producer.flush()


def metric(job: Job, series: str) -> float:
    address = re.findall(r"http://\S+/metrics", job.log.read_text())[-1]
    with urllib.request.urlopen(address, timeout=10) as answer:
        found = re.search(rf"^{re.escape(series)} (\S+)$", answer.read().decode(), re.MULTILINE)
    return float(found[1]) if found else 0.0


def joined(job: Job, round_: int) -> dict[str, tuple[int, str | None]]:
    """Of this round's facts: the product's key and category, by its code."""
    table = DeltaTable(f"{job.settings['warehouse.path']}/fact_sales").to_pyarrow_table()
    rows = table.filter(pa.compute.starts_with(table["sale_id"], f"r{round_}-")).to_pylist()
    return {row["product_code"]: (row["product_key"], row["product_category"]) for row in rows}


@pytest.mark.mysql
def test_sales_after_a_change_have_the_row_as_it_is_then_and_none_has_one_of_a_table_that_is_no_longer_as_agreed(
    tmp_path: Path, stack: Stack, master_database: str, topic: str
) -> None:
    owner = {"role": "owner", "database": master_database}
    with stack.database.connect(**owner) as connection:
        seed(connection, Sizes(50, 10, 10), progress=False)

    def in_the_master() -> dict[str, tuple[int, str | None]]:
        with stack.database.connect(**owner) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT product_code, product_key, category FROM product")
            known = {code: (key, category) for code, key, category in cursor.fetchall()}
        return {code: known.get(code, (-1, None)) for code in CODES}

    job = Job(tmp_path, stack.info(), topic, master__database=master_database, master__feed="binlog")
    for name in ("product", "customer", "store"):
        job.settings |= {f"dimensions.{name}.{life}": "1 h" for life in ("max_staleness", "absent_staleness")}
    stack.kafka.create_topic(topic, 2)
    send(stack.info().bootstrap, topic, CODES, 1)
    with job:
        job.wait_for(60)
        send(stack.info().bootstrap, topic, CODES, 2)
        job.wait_for(120)
        assert joined(job, 2) == in_the_master()

        seen = metric(job, 'millrace_feed_changes_total{dimension="product"}')
        stack.database.execute(
            f"UPDATE product SET category = 'moved' WHERE product_code < '{CODES[20]}'",
            f"DELETE FROM product WHERE product_code = '{CODES[30]}'",
            f"UPDATE product SET product_code = '{CODES[55]}' WHERE product_code = '{CODES[40]}'",
            **owner,
        )
        wait_until(
            lambda: metric(job, 'millrace_feed_changes_total{dimension="product"}') >= seen + 23, "it is told", 20
        )
        send(stack.info().bootstrap, topic, CODES, 3)
        job.wait_for(180)
        assert joined(job, 3) == in_the_master()
        told = dict(why(resolve(load(None, job.assignments, {})), Place(topic, 0), 0).lines)
        assert re.search(r"the master's changes up to \S+/changes\.\d+:\d+", told["heeded"])
        assert metric(job, 'millrace_cache_forgotten_total{dimension="product"}') >= 22  # one was not kept by anybody

        break_off_the_feeds(stack)
        stack.database.execute("UPDATE product SET category = 'again'", **owner)
        wait_until(
            lambda: metric(job, 'millrace_feed_changes_total{dimension="product"}') >= seen + 72, "it is told", 30
        )
        send(stack.info().bootstrap, topic, CODES, 4)
        job.wait_for(240)
        assert joined(job, 4) == in_the_master()

        stack.database.execute("ALTER TABLE product ADD COLUMN shelf INT FIRST", **owner)
        wait_until(lambda: metric(job, 'millrace_feed_unknown_total{dimension="product"}') >= 2, "it is told", 20)
        send(stack.info().bootstrap, topic, CODES, 5)
        job.wait_for(300)
        assert joined(job, 5) == in_the_master()

        stack.database.execute("ALTER TABLE product DROP COLUMN brand", **owner)
        wait_until(lambda: metric(job, 'millrace_feed_unknown_total{dimension="product"}') >= 3, "it is told", 20)
        send(stack.info().bootstrap, topic, CODES, 6)
        assert job.wait(60) == 2, job.tail()
        assert "product.brand: the contract of dimension product names this column" in job.tail()
        assert not joined(job, 6)


def break_off_the_feeds(stack: Stack) -> None:
    with stack.database.connect("admin") as connection, connection.cursor() as cursor:
        assert cursor.execute("SELECT ID FROM information_schema.PROCESSLIST WHERE COMMAND LIKE 'Binlog Dump%'")
        for (session,) in cursor.fetchall():
            cursor.execute(f"KILL {session}")
