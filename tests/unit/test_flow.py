"""A sale's journey without Spark, Kafka or MySQL: messages in, files and a report out."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline import flow
from pipeline.enrich import Dimension
from pipeline.errors import MasterReadFailed
from pipeline.flow import SaleFlow
from pipeline.joins.inlj import IndexNestedLoopJoin
from pipeline.joins.meshjoin import MeshJoin
from pipeline.master.memory import MemoryMaster
from pipeline.parse import Parser
from pipeline.plan import Plan, resolve
from pipeline.report import Report, decode, encode
from pipeline.settings import load
from pipeline.warehouse.files import TableFiles
from pipeline.warehouse.port import Batch

SENT_AT = 1_700_000_000_000_000  # 2023-11-14 22:13:20 UTC, in microseconds


def sale(number: int, **changes: Any) -> bytes:
    fields = {
        "sale_id": f"s{number}",
        "sold_at": "2023-11-14T22:13:20Z",
        "store_code": "S1",
        "product_code": f"P{number % 5}",
        "customer_number": number % 3,
        "quantity": number,
        "unit_price": 19.99,
        "currency": "NZD",
    }
    return json.dumps(fields | changes).encode()


def batch_of(*values: bytes | None, topic: str = "sales", first_offset: int = 0) -> pa.RecordBatch:
    count = len(values)
    return pa.RecordBatch.from_pydict(
        {
            "topic": pa.array([topic] * count, pa.string()),
            "partition": pa.array([0] * count, pa.int32()),
            "offset": pa.array(range(first_offset, first_offset + count), pa.int64()),
            "timestamp": pa.array([SENT_AT] * count, pa.timestamp("us", tz="UTC")),
            "value": pa.array(values, pa.binary()),
        }
    )


def master_of(plan: Plan, name: str, keys: dict[Any, int]) -> MemoryMaster:
    contract = plan.dimensions[name]
    rows = {
        "key": pa.array(keys, contract.key_type),
        "surrogate_key": pa.array(keys.values(), pa.int64()),
        "updated_at": pa.array([SENT_AT] * len(keys), pa.timestamp("us", tz="UTC")),
        **{attribute: pa.array([f"{attribute} {v}" for v in keys.values()]) for attribute in contract.attributes},
    }
    return MemoryMaster(pa.table(rows))


@pytest.fixture
def masters() -> Iterator[dict[str, MemoryMaster]]:
    plan = resolve(load(environment={}))
    return {
        "product": master_of(plan, "product", {b"P0": 100, b"P1": 101, b"P2": 102}),
        "customer": master_of(plan, "customer", {0: 200, 1: 201}),
        "store": master_of(plan, "store", {b"S1": 300}),
    }


def flow_into(folder: Path, masters: dict[str, MemoryMaster], *assignments: str) -> SaleFlow:
    for table in ("facts", "rejects"):
        (folder / table).mkdir(parents=True)
    settings = load(None, assignments, {})
    plan = resolve(settings)
    return SaleFlow(
        parser_of=lambda topic: Parser(plan.topic(topic), settings.kafka.max_message_bytes),
        sale_schema=plan.sale_schema,
        dimensions=[Dimension(c, IndexNestedLoopJoin(masters[n], 1 << 20)) for n, c in plan.dimensions.items()],
        facts=TableFiles(str(folder / "facts"), plan.facts, {}, "snappy", "attempt"),
        rejects=TableFiles(str(folder / "rejects"), plan.rejects, {}, "snappy", "attempt"),
        limits=settings.worker,
        application="test",
        batch=7,
    )


def rows(folder: Path) -> list[dict[str, Any]]:
    files = sorted(folder.rglob("*.parquet"))
    return [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]


def test_a_sale_becomes_a_fact_with_surrogate_keys_attributes_and_its_offset(tmp_path: Path, masters) -> None:
    report = flow_into(tmp_path, masters).run([batch_of(sale(1), first_offset=41)])
    [fact] = rows(tmp_path / "facts")
    assert (fact["product_key"], fact["customer_key"], fact["store_key"]) == (101, 201, 300)
    assert (fact["product_category"], fact["topic"], fact["offset"]) == ("category 101", "sales", 41)
    assert (str(fact["unit_price"]), fact["application"], fact["batch"]) == ("19.99", "test", 7)
    assert (report.sales, report.rejected, len(report.facts), len(report.rejects)) == (1, {}, 1, 0)


def test_absent_and_null_keys_become_the_unknown_member_and_keep_the_natural_key(tmp_path: Path, masters) -> None:
    flow_into(tmp_path, masters).run([batch_of(sale(1, product_code="P9"), sale(2, customer_number=None))])
    unmatched, null_key = rows(tmp_path / "facts")
    assert (unmatched["product_key"], unmatched["product_code"], unmatched["product_category"]) == (-1, "P9", None)
    assert (null_key["customer_key"], null_key["customer_number"], null_key["customer_version"]) == (-1, None, None)


def test_every_message_is_exactly_one_fact_or_one_reject_at_its_own_offset(tmp_path: Path, masters) -> None:
    values = [sale(n) if n % 7 else b"{" * (n // 7) for n in range(1000)]
    batches = [batch_of(*values[n : n + 93], first_offset=n) for n in range(0, 1000, 93)]
    report = flow_into(tmp_path, masters, "worker.window_sales=150").run(batches)
    facts = {row["offset"]: row["quantity"] for row in rows(tmp_path / "facts")}
    rejects = {row["offset"]: row["raw"] for row in rows(tmp_path / "rejects")}
    assert facts == {n: n for n in range(1000) if n % 7}
    assert rejects == {n: values[n] for n in range(0, 1000, 7)}
    assert report.sales == len(facts)
    assert sum(report.rejected.values()) == len(rejects)
    assert sum(file.rows for file in report.facts) == len(facts)


def test_two_topics_in_one_window_keep_their_names_and_offsets(tmp_path: Path, masters) -> None:
    report = flow_into(tmp_path, masters).run(
        [batch_of(sale(1)), batch_of(sale(2), sale(3), topic="more", first_offset=9)]
    )
    assert {(r["topic"], r["offset"]) for r in rows(tmp_path / "facts")} == {("sales", 0), ("more", 9), ("more", 10)}
    assert report.topics == {"sales": 1, "more": 2}
    assert (report.offsets["more/0"].first, report.offsets["more/0"].last) == (9, 10)


def test_a_master_row_that_is_there_twice_gives_two_facts(tmp_path: Path, masters) -> None:
    once = masters["product"].table
    twice = MemoryMaster(pa.concat_tables([once, once]), unique=False)
    flow = flow_into(tmp_path, masters)
    flow.dimensions[0] = Dimension(flow.dimensions[0].contract, MeshJoin(twice, 1 << 20))
    flow.run([batch_of(sale(0), sale(1))])
    assert sorted((r["offset"], r["product_key"], r["store_key"]) for r in rows(tmp_path / "facts")) == [
        (0, 100, 300),
        (0, 100, 300),
        (1, 101, 300),
        (1, 101, 300),
    ]


def test_a_failing_master_fails_the_batch_and_leaves_no_files(tmp_path: Path, masters) -> None:
    masters["store"].fail_on = 1
    with pytest.raises(MasterReadFailed):
        flow_into(tmp_path, masters).run([batch_of(sale(1))])
    assert rows(tmp_path) == []


def test_a_kafka_timestamp_behind_all_calendars_is_brought_back_to_the_last_moment(tmp_path: Path, masters) -> None:
    beyond = pa.array([2**62], pa.timestamp("us", tz="UTC"))
    message = batch_of(sale(1))
    flow_into(tmp_path, masters).run([message.set_column(3, "timestamp", beyond)])
    [file] = (tmp_path / "facts").rglob("*.parquet")
    assert file.parent.name == "received_on=9999-12-31"


def test_no_messages_make_no_files(tmp_path: Path, masters) -> None:
    report = flow_into(tmp_path, masters).run([batch_of()])
    assert (report.facts, report.rejects, report.sales) == ([], [], 0)


def test_a_report_survives_the_way_to_the_driver_and_merges(tmp_path: Path, masters) -> None:
    report = flow_into(tmp_path / "a", masters).run([batch_of(sale(1), b"", sale(2))])
    merged = Report()
    merged += decode(encode(report))
    merged += decode(encode(flow_into(tmp_path / "b", masters).run([batch_of(sale(3), first_offset=3)])))
    assert (merged.sales, merged.topics, sum(merged.rejected.values())) == (3, {"sales": 4}, 1)
    assert (merged.offsets["sales/0"].first, merged.offsets["sales/0"].last) == (0, 3)
    assert merged.dimensions["product"].counts["matched"] == 2
    assert merged.dimensions["product"].reads["lookup"]["queries"] == 2
    assert merged.dimensions["product"].queue_wait.count == 3
    assert merged.age.count == 4


class RecordingWarehouse:
    """Stands where the Delta table stands, because which call is made is the subject."""

    def __init__(self, last: int | None) -> None:
        self.last, self.calls = last, []

    def last_batch(self) -> int | None:
        return self.last

    def commit(self, batch: Batch) -> None:
        self.calls.append(("commit", batch.id))

    def finish(self, batch: int) -> None:
        self.calls.append(("finish", batch))


@pytest.mark.parametrize(("last", "calls"), [(None, [("commit", 5)]), (4, [("commit", 5)]), (5, [("finish", 5)])])
def test_a_batch_whose_facts_are_committed_is_finished_and_not_computed_again(last, calls) -> None:
    warehouse, computed, published = RecordingWarehouse(last), [], []

    def workers() -> Report:
        computed.append(True)
        return Report()

    flow.one_batch(5, workers, warehouse, "sales_rejects", {}, lambda *report: published.append(report))
    assert warehouse.calls == calls
    assert bool(computed) == bool(published) == (calls[0][0] == "commit")
