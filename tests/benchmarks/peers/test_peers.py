"""The harness itself: what it counts, what it takes for a right answer, and the hand-written loop on real servers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from pipeline.generate.keys import PRODUCT, Sizes, product_codes, surrogate_keys
from pipeline.generate.run import generate
from pipeline.generate.seed import seed
from pipeline.generate.workload import Workload
from pipeline.java import jars
from pipeline.laptop.stack.stack import Stack, StackInfo
from tests.benchmarks.peers import (
    answers,
    flink_sql,
    loop,
    misses,
    progress,
    redpanda_build,
    redpanda_config,
    run,
    table,
)
from tests.benchmarks.peers.accounting import BROKER, CLIENT, KINDS, Snapshot, between, by_kind, processor_seconds
from tests.benchmarks.peers.millrace import facts
from tests.benchmarks.peers.task import Task
from tests.kit.running import wait_until

SIZES = Sizes(products=3, customers=1, stores=1)
SALES = [{"sale_id": str(n), "product_code": code} for n, code in enumerate(["P-00000002", None, "P-00000004"])]
KEY = int(surrogate_keys(PRODUCT, np.array([1]))[0])


def answer(*keys: int | None) -> pa.Table:
    return pa.table({"sale_id": [str(n) for n in range(len(keys))], "product_key": pa.array(keys, pa.int64())})


def task(folder: Path, stack: StackInfo | None = None, **more: object) -> Task:
    given: dict[str, object] = {
        "place": str(folder), "bootstrap": "", "topic": "", "messages": 0, "host": "", "port": 0, "user": "",
        "password": "", "database": "", "kind": "mariadb", "dimensions": ("product",), "cached_rows": 100,
        "memory": "2 MiB", "batch": 1_000, "cores": 2,
    }  # fmt: skip
    if stack:
        given |= {"bootstrap": stack.bootstrap, "host": stack.host, "port": stack.port, "database": stack.database}
        given |= {"user": stack.reader.user, "password": stack.reader.password}
    return Task(**{**given, **more})  # type: ignore[arg-type]


def test_an_answer_has_the_generators_keys_and_none_where_the_key_is_null_or_beyond_the_table() -> None:
    expected = answers.right(SALES, ("product",), SIZES)
    assert expected["product_key"].to_pylist() == [KEY, -1, -1]
    assert answers.right(SALES, ("product",), SIZES, missing=1.0)["product_key"].to_pylist() == [-1, -1, -1]
    answers.check("a peer", answer(KEY, None, -1), expected)  # null and the unknown member are the same


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (answer(KEY, None), "2 sales came out, and 3 went in"),
        (answer(KEY + 1, None, None), "1 of 3 sales have another product_key"),
        (answer(KEY, None, None).take([0, 0, 1]), "another one came twice"),
    ],
    ids=["too few", "another key", "one twice"],
)
def test_an_answer_that_is_not_right_is_refused(given: pa.Table, said: str) -> None:
    with pytest.raises(answers.WrongAnswer, match=said):
        answers.check("a peer", given, answers.right(SALES, ("product",), SIZES))


def test_a_peers_processes_are_found_with_their_children_and_the_servers_beside_them() -> None:
    child = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()'])"
    with subprocess.Popen([sys.executable, "-c", child], stdin=subprocess.PIPE) as process:
        wait_until(lambda: len(by_kind(process.pid, {})) == 2, "the child is there", 30)
        found = by_kind(process.pid, {BROKER: os.getpid()})
        process.communicate(b"\n")
    assert [kind for kind, _ in found] == [CLIENT, CLIENT, BROKER]
    assert processor_seconds(os.getpid()) > 0
    assert processor_seconds(process.pid) == 0  # it is gone


def test_what_a_sale_took_is_the_difference_of_two_moments() -> None:
    nothing = dict.fromkeys(KINDS, 0.0)
    first = Snapshot(10.0, 1_000, nothing, 5.0, {"keys": 7})
    last = Snapshot(12.0, 3_000, nothing | {CLIENT: 0.5, BROKER: 0.1}, 6.6, {"keys": 1_007})
    found = between(first, last)
    assert (found["sales a second"], found["asked a sale"]) == (1_000, {"keys": 0.5})
    assert found["cpu us a sale"] == {**nothing, CLIENT: 250.0, BROKER: 50.0, "all": 300.0}
    assert found["cores others used"] == 0.5  # 1.6 s of processor in 2 s, 0.6 of them ours


def test_how_far_a_peer_is_stands_in_its_last_whole_line(tmp_path: Path) -> None:
    assert progress.told(tmp_path) == 0
    (tmp_path / "progress").write_text("10\n20\n3")
    assert progress.told(tmp_path) == 20


def test_how_far_spark_is_stands_in_the_last_batch_that_is_committed(tmp_path: Path) -> None:
    for folder in ("offsets", "commits"):
        (tmp_path / folder).mkdir()
    for batch, ends in enumerate(({"0": 5, "1": 6}, {"0": 9, "1": 9}, {"0": 20, "1": 20})):
        (tmp_path / "offsets" / str(batch)).write_text(f"v1\n{{}}\n{json.dumps({'sales': ends})}")
    assert progress.committed(tmp_path) == 0
    for batch in (0, 1):
        (tmp_path / "commits" / str(batch)).write_text("v1\n{}")
    assert progress.committed(tmp_path) == 18


def test_the_table_has_medians_and_ratios_to_the_loop_of_as_many_dimensions() -> None:
    def turn(peer: str, rate: int, cpu: float) -> table.Run:
        return {
            "peer": peer, "dimensions": 1, "sales a second": rate, "cores others used": 0.0,
            "cpu us a sale": {**dict.fromkeys(KINDS, 0.0), "all": cpu}, "peak megabytes": {"all": 1},
            "asked a sale": {"keys": 0.4, "queries": 0.1, "rows": 0.4},
        }  # fmt: skip

    runs = [turn("loop", 100, 8.0), turn("other", 300, 4.0), turn("loop", 90, 9.0), turn("loop", 500, 7.0)]
    loop_row, other = table.medians(runs)
    assert (loop_row["sales a second"], loop_row["lowest and highest rate"]) == (100, [90, 500])
    assert (other["rate to the loop's"], other["cpu to the loop's"]) == (3.0, 0.5)
    assert "300" in table.text([loop_row, other]).splitlines()[2]


def test_a_fact_table_for_one_dimension_has_no_columns_of_the_others(tmp_path: Path) -> None:
    assert '"product.surrogate_key"' in facts(task(tmp_path))
    assert '"store.' not in facts(task(tmp_path))


def test_flink_is_asked_for_a_left_join_a_dimension_with_a_cache_of_as_many_rows_as_the_loops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jars, "fetch", lambda of_set, lock: [])
    sales, product, store, sink, query = flink_sql.statements(task(tmp_path, dimensions=("product", "store")))
    assert "'scan.startup.mode' = 'earliest-offset'" in sales
    assert all("'lookup.partial-cache.max-rows' = '100'" in table for table in (product, store))
    assert "blackhole" in sink
    assert query.count("LEFT JOIN") == 2
    assert "product.product_key, product.updated_at, product.category, product.brand, store.store_key" in query


def test_redpanda_connect_asks_for_the_keys_of_a_batch_in_one_query_a_dimension_and_lets_null_keys_by(
    tmp_path: Path,
) -> None:
    given = task(tmp_path, dimensions=("product", "customer"), bootstrap="broker:1", topic="sales", cores=3)
    told = redpanda_config.configuration(given, 4195)
    product, customer = (step["branch"] for step in told["pipeline"]["processors"])
    assert told["input"]["redpanda"]["start_offset"] == "earliest"
    assert told["pipeline"]["threads"] == 3
    archive, ask, unarchive = product["processors"]
    assert archive["archive"] == unarchive["unarchive"] == {"format": "json_array"}
    assert "product.product_key, product.updated_at, product.category, product.brand FROM" in ask["sql_raw"]["query"]
    assert "LEFT JOIN product ON product.product_code = wanted.k ORDER BY" in ask["sql_raw"]["query"]
    assert "this.customer_number == null { deleted() }" in customer["request_map"]
    assert told["output"] == {"reject_errored": {"drop": {}}}


def test_redpanda_connect_writes_its_answer_down_where_one_is_asked_for(tmp_path: Path) -> None:
    told = redpanda_config.configuration(task(tmp_path, keep=True), 4195)
    assert told["pipeline"]["processors"][-1] == {
        "mapping": "root.sale_id = this.sale_id\nroot.product_key = this.product.product_key | null"
    }
    assert told["output"]["reject_errored"]["file"]["path"].startswith(str(tmp_path))


def test_without_go_redpanda_connect_says_what_to_install_or_to_leave_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MILLRACE_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    with pytest.raises(redpanda_build.NoGo, match="Install Go"):
        redpanda_build.fetch()


@pytest.mark.mysql
def test_database_and_harness_agree_on_which_products_are_missing(stack: Stack, master_database: str) -> None:
    with stack.database.connect("owner", master_database) as connection, connection.cursor() as cursor:
        seed(connection, Sizes(2_000, 1, 1), progress=False)
        misses.make(cursor, 2_000, 0.5)
        cursor.execute("SELECT product_code FROM product")
        codes = {code for (code,) in cursor.fetchall()}
    wanted = product_codes(np.arange(2_000)).to_pylist()
    assert len(codes) == 2_000  # as many as without
    assert {code for code in wanted if code not in codes} == {code for code in wanted if misses.is_missing(code, 0.5)}


@pytest.mark.mysql
def test_the_hand_written_loop_is_right(tmp_path: Path, topic: str, seeded: StackInfo, seeded_sizes: Sizes) -> None:
    more = Sizes(*(size + 100 for size in seeded_sizes.by_dimension))
    workload = Workload(topics={topic: 1.0}, sizes=more, null_keys=0.1)
    generate(bootstrap=seeded.bootstrap, workload=workload, messages=3_000, partitions=2, progress=False)
    dimensions = ("product", "customer", "store")
    given = task(tmp_path, seeded, topic=topic, messages=3_000, dimensions=dimensions, keep=True)
    with run.started(loop.PEER, given) as process:
        run.until(3_000, loop.PEER, given, process)
    sales = answers.read(seeded.bootstrap, topic, 3_000)
    answers.check("loop", loop.PEER.answer(given), answers.right(sales, dimensions, seeded_sizes))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_run_in_small_measures_every_peer_it_is_told_of(tmp_path: Path) -> None:
    told = tmp_path / "peers.json"
    small = "--sales 600000 --products 2000 --customers 2000 --turns 1 --dimensions 1 --peers loop millrace"
    command = [sys.executable, "-m", "tests.benchmarks.peers.run", *small.split(), "--output", str(told)]
    subprocess.run(command, cwd=run.ROOT, check=True)
    medians = json.loads(told.read_text())["medians"]
    assert [row["peer"] for row in medians] == ["loop", "millrace"]
    assert told.with_suffix(".png").exists()
    assert all(row["cpu us a sale"]["database"] >= 0 and row["sales a second"] > 0 for row in medians)
