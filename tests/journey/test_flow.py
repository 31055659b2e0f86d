"""A sale's journey without Spark, Kafka or MySQL: messages in, files and an answer out."""

import itertools
import json
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline import flow, source
from pipeline.answers.task import Offsets, TaskAnswer, decode, encode
from pipeline.config.settings import load
from pipeline.enrich import Dimension, enrich
from pipeline.errors import MasterReadFailed, WarehouseRefused
from pipeline.flow import SaleFlow, parse
from pipeline.joins import make
from pipeline.joins.cost.prediction import Prediction
from pipeline.master.memory import MemoryMaster
from pipeline.parse import Parser
from pipeline.plan import Plan, resolve
from pipeline.warehouse.files import TableFiles
from pipeline.warehouse.port import Batch
from pipeline.watch import families
from pipeline.watch.publish import Metrics
from pipeline.watch.scrape import scrape

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
        dimensions=[Dimension(c, make("inlj", masters[n], 1 << 20)) for n, c in plan.dimensions.items()],
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
    answer = flow_into(tmp_path, masters).run([batch_of(sale(1), first_offset=41)])
    [fact] = rows(tmp_path / "facts")
    assert (fact["product_key"], fact["customer_key"], fact["store_key"]) == (101, 201, 300)
    assert (fact["product_category"], fact["topic"], fact["offset"]) == ("category 101", "sales", 41)
    assert (str(fact["unit_price"]), fact["application"], fact["batch"]) == ("19.99", "test", 7)
    assert (answer.sales, answer.rejected, len(answer.facts), len(answer.rejects)) == (1, {}, 1, 0)


def test_absent_and_null_keys_become_the_unknown_member_and_keep_the_natural_key(tmp_path: Path, masters) -> None:
    flow_into(tmp_path, masters).run([batch_of(sale(1, product_code="P9"), sale(2, customer_number=None))])
    unmatched, null_key = rows(tmp_path / "facts")
    assert (unmatched["product_key"], unmatched["product_code"], unmatched["product_category"]) == (-1, "P9", None)
    assert (null_key["customer_key"], null_key["customer_number"], null_key["customer_version"]) == (-1, None, None)


def test_every_message_is_exactly_one_fact_or_one_reject_at_its_own_offset(tmp_path: Path, masters) -> None:
    values = [sale(n) if n % 7 else b"{" * (n // 7) for n in range(1000)]
    batches = [batch_of(*values[n : n + 93], first_offset=n) for n in range(0, 1000, 93)]
    answer = flow_into(tmp_path, masters, "worker.window_sales=150").run(batches)
    facts = {row["offset"]: row["quantity"] for row in rows(tmp_path / "facts")}
    rejects = {row["offset"]: row["raw"] for row in rows(tmp_path / "rejects")}
    assert facts == {n: n for n in range(1000) if n % 7}
    assert rejects == {n: values[n] for n in range(0, 1000, 7)}
    assert answer.sales == len(facts)
    assert sum(answer.rejected.values()) == len(rejects)
    assert sum(file.rows for file in answer.facts) == len(facts)


def test_the_predicted_service_rate_and_hits_are_those_of_the_windows_as_they_came(tmp_path: Path, masters) -> None:
    flow = flow_into(tmp_path, masters, "worker.window_sales=150")
    first = flow.dimensions[0]
    flow.dimensions[0] = Dimension(
        first.contract, first.join, predict=lambda sales: Prediction({}, {"p_N": sales / 1_000}, mu=10.0 * sales)
    )
    for _ in range(2):  # the second batch forgets the first
        answer = flow.run([batch_of(*map(sale, range(n, n + 50)), first_offset=n) for n in range(0, 200, 50)])
        assert answer.dimensions["product"].predicted_rate == pytest.approx(200 / (150 / 1_500 + 50 / 500))
        assert answer.dimensions["product"].predicted_hits == pytest.approx(150 * 0.15 + 50 * 0.05)
    assert answer.dimensions["customer"].predicted_rate == 0  # nobody was asked


def test_which_way_auto_took_arrives_at_the_endpoint(tmp_path: Path, masters) -> None:
    """From the join's own count, through a task's answer, to what Prometheus is told."""
    assignments = ["dimensions.product.memory=4 MiB", "dimensions.store.algorithm=inlj"]
    flow, plan = flow_into(tmp_path, masters, *assignments), resolve(load(None, assignments, {}))
    auto = plan.make_join("product", master_of(plan, "product", {b"P%d" % n: n for n in range(20_000)}))
    flow.dimensions[0] = Dimension(plan.dimensions["product"], auto)
    metrics = Metrics()
    for batch in range(3):
        sales = [sale(n, product_code=f"P{n * 7 % 20_000}") for n in range(batch * 500, (batch + 1) * 500)]
        metrics.published(decode(encode(flow.run([batch_of(*sales, first_offset=batch * 500)]))), 0.0, batch)
    url = f"http://127.0.0.1:{metrics.serve('127.0.0.1', 0)}/metrics"
    try:
        told = scrape(url).of(families.AUTO_WINDOWS)
    finally:
        metrics.close()
    counted = auto.statistics
    assert {(dict(labels)["dimension"], dict(labels)["way"]): windows for labels, windows in told.items()} == {
        ("product", "look-ups"): counted.looked_up,
        ("product", "pages"): counted.by_pages,
        ("product", "scan"): counted.by_scan,
    }
    assert sum(told.values()) >= 3  # a window in each batch, at the least


def test_two_topics_in_one_window_keep_their_names_and_offsets(tmp_path: Path, masters) -> None:
    answer = flow_into(tmp_path, masters).run(
        [batch_of(sale(1)), batch_of(sale(2), sale(3), topic="more", first_offset=9)]
    )
    assert {(r["topic"], r["offset"]) for r in rows(tmp_path / "facts")} == {("sales", 0), ("more", 9), ("more", 10)}
    assert answer.topics == {"sales": 1, "more": 2}
    assert (answer.offsets["more/0"].first, answer.offsets["more/0"].last) == (9, 10)


def test_a_master_row_that_is_there_twice_gives_two_facts(tmp_path: Path, masters) -> None:
    once = masters["product"].table
    twice = MemoryMaster(pa.concat_tables([once, once]), unique=False)
    flow = flow_into(tmp_path, masters)
    flow.dimensions[0] = Dimension(flow.dimensions[0].contract, make("meshjoin", twice, 1 << 20))
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
    answer = flow_into(tmp_path, masters).run([batch_of()])
    assert (answer.facts, answer.rejects, answer.sales) == ([], [], 0)


@pytest.mark.parametrize("hour", [3_600, -3_600])
def test_the_time_that_sales_take_is_by_no_clock_that_can_be_set(tmp_path: Path, masters, monkeypatch, hour) -> None:
    jumps = itertools.count(time.time(), hour)
    monkeypatch.setattr("time.time", lambda: next(jumps))
    answer = flow_into(tmp_path, masters).run([batch_of(sale(1), sale(2))])
    processing = answer.dimensions["product"].processing
    assert processing.count == 2
    assert 0 < processing.total < 60


def test_an_answer_survives_the_way_to_the_driver_and_merges(tmp_path: Path, masters) -> None:
    answer = flow_into(tmp_path / "a", masters).run([batch_of(sale(1), b"", sale(2))])
    merged = TaskAnswer()
    merged += decode(encode(answer))
    merged += decode(encode(flow_into(tmp_path / "b", masters).run([batch_of(sale(3), first_offset=3)])))
    assert (merged.sales, merged.topics, sum(merged.rejected.values())) == (3, {"sales": 4}, 1)
    assert (merged.offsets["sales/0"].first, merged.offsets["sales/0"].last) == (0, 3)
    assert merged.dimensions["product"].counts.matched == 2
    assert merged.dimensions["product"].reads.by_kind["lookup"].queries == 2
    assert merged.dimensions["product"].queue_wait.count == 3
    assert merged.age.count == 4


class RecordingWarehouse:
    """Stands where the Delta table stands, because which call is made is the subject."""

    def __init__(self, last: int | None) -> None:
        self.last, self.calls = last, []

    def last_batch(self) -> int | None:
        return self.last

    def note_of(self, batch: int) -> dict[str, Any]:
        return {"checkpoint": "another's" if batch == 4 else "ours"}

    def commit(self, batch: Batch) -> None:
        self.calls.append(("commit", batch.id, batch.note))

    def finish(self, batch: int) -> None:
        self.calls.append(("finish", batch))


class RecordingLineage:
    """Stands where checkpoint and broker stand."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def note(self, answer: TaskAnswer) -> dict[str, Any]:
        self.calls.append("note")
        return {"sales": answer.sales}

    def committed(self) -> None:
        self.calls.append("committed")

    def require_ours(self, batch: int, note: dict[str, Any]) -> None:
        if note["checkpoint"] != "ours":
            raise WarehouseRefused("two jobs run under one job.name")


def one_batch(batch: int, last: int | None) -> tuple[RecordingWarehouse, RecordingLineage, list[Any]]:
    warehouse, lineage, published = RecordingWarehouse(last), RecordingLineage(), []
    workers = lambda: TaskAnswer(sales=3)  # noqa: E731
    flow.one_batch(batch, workers, warehouse, "sales_rejects", lineage, lambda *answer: published.append(answer))
    return warehouse, lineage, published


@pytest.mark.parametrize("last", [None, 4])
def test_a_batch_is_committed_with_the_note_of_where_it_came_from(last) -> None:
    warehouse, lineage, published = one_batch(5, last)
    assert warehouse.calls == [("commit", 5, {"sales": 3})]
    assert lineage.calls == ["note", "committed"]
    assert len(published) == 1


def test_a_batch_whose_facts_are_committed_is_finished_and_not_computed_again() -> None:
    warehouse, lineage, published = one_batch(5, last=5)
    assert (warehouse.calls, lineage.calls, published) == ([("finish", 5)], [], [])


def test_a_batch_that_another_job_of_the_same_name_has_written_is_not_taken_for_a_replay() -> None:
    with pytest.raises(WarehouseRefused, match="two jobs"):
        one_batch(4, last=4)


def test_the_newest_message_of_each_partition_is_told_with_its_time(tmp_path: Path, masters) -> None:
    first, second = batch_of(sale(1), sale(2), first_offset=7), batch_of(sale(3), first_offset=9)
    earlier = pa.array([SENT_AT - 5], pa.timestamp("us", tz="UTC"))  # a sender's clock may go back
    answer = flow_into(tmp_path, masters).run([first, second.set_column(3, "timestamp", earlier)])
    assert answer.offsets["sales/0"] == Offsets(first=7, last=9, messages=3, last_sent=SENT_AT - 5)


def test_millions_of_matches_leave_in_pieces_and_take_no_more_memory_than_a_window(
    tmp_path: Path, masters, arrow_memory: pa.MemoryPool
) -> None:
    """2 000 sales of one product that the master has 1 000 times, and two more dimensions behind it."""
    sales, times = 2_000, 1_000
    once = masters["product"].table.slice(1, 1)
    repeated = MemoryMaster(pa.concat_tables([once] * times).combine_chunks(), unique=False)
    flow = flow_into(tmp_path, masters, "worker.window_sales=20000")
    flow.dimensions[0] = Dimension(flow.dimensions[0].contract, make("meshjoin", repeated, 2 << 20))
    tracemalloc.start()
    try:
        answer = flow.run([batch_of(*(sale(n, product_code="P1") for n in range(sales)))])
        peak = tracemalloc.get_traced_memory()[1] + arrow_memory.max_memory()
    finally:
        tracemalloc.stop()
    assert answer.sales == sum(file.rows for file in answer.facts) == sales * times
    [file] = (tmp_path / "facts").rglob("*.parquet")
    told = pq.ParquetFile(file)
    assert max(told.metadata.row_group(n).num_rows for n in range(told.num_row_groups)) <= 20_000
    pairs = told.read(["offset", "product_key"]).group_by(["offset", "product_key"]).aggregate([([], "count_all")])
    assert len(pairs) == sales
    assert set(pairs["count_all"].to_pylist()) == {times}
    assert peak < 64 << 20, f"{peak:,} bytes"


def test_rows_that_are_large_leave_in_smaller_pieces(tmp_path: Path, masters) -> None:
    """Each match repeats its sale's texts: the bytes of a window bound them, not only its rows."""
    once = masters["product"].table.slice(1, 1)
    repeated = MemoryMaster(pa.concat_tables([once] * 40).combine_chunks(), unique=False)
    flow = flow_into(tmp_path, masters, "worker.window_bytes=1 MiB")
    flow.dimensions[0] = Dimension(flow.dimensions[0].contract, make("meshjoin", repeated, 2 << 20))
    wide = [sale(n, product_code="P1") for n in range(3)]
    tables = list(enrich(_wide_sales(flow, wide, 200_000), flow.dimensions[:1], flow.limits))
    assert sum(map(len, tables)) == 3 * 40
    assert max(map(len, tables)) <= 5  # of 200 000 bytes each


def _wide_sales(flow: SaleFlow, values: list[bytes], size: int) -> pa.Table:
    sales, _ = parse(_window(values), flow.parser_of, flow.sale_schema)
    at = sales.schema.get_field_index("sale.currency")
    return sales.set_column(at, "sale.currency", pa.array(["c" * size] * len(values)))


def _window(values: list[bytes]) -> pa.Table:
    return next(source.windows([batch_of(*values)], load(environment={}).worker))
