"""The reconciliation finds every way in which the warehouse can be wrong, and nothing where it is right.

The tables are made here from what Kafka and the database hold, without the job, and then broken one row at a time.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from deltalake import write_deltalake
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from pipeline import columns
from pipeline import facts as fact_columns
from pipeline.config import resources, settings
from pipeline.config.contracts import TableColumn, TableContract
from pipeline.errors import BadSetting
from pipeline.generate.keys import Sizes
from pipeline.generate.run import generate
from pipeline.generate.seed import seed
from pipeline.generate.sent import Sent
from pipeline.generate.workload import Workload
from pipeline.parse import Parser
from pipeline.plan import Plan, resolve
from pipeline.reconcile import NotReconcilable, Verdict, reconcile
from pipeline.reconcile.broker import Broker, Message, Place

TOPIC = "reconciled-sales"
SIZES = Sizes(products=300, customers=200, stores=20)
MESSAGES = 3_000

Rows = list[dict[str, Any]]


@dataclass
class World:
    """Kafka, the database, and the right tables for both."""

    plan: Plan
    sent: Sent
    facts: Rows
    rejects: Rows
    folder: Path

    def verdict(self, change: Callable[[World], None] = lambda world: None, sent: bool = True) -> Verdict:
        """Write the tables, after a change to the right ones, and reconcile."""
        world = World(self.plan, self.sent, [dict(r) for r in self.facts], [dict(r) for r in self.rejects], self.folder)
        change(world)
        shutil.rmtree(self.folder / "warehouse", ignore_errors=True)
        for contract, rows in ((self.plan.facts, world.facts), (self.plan.rejects, world.rejects)):
            table = pa.Table.from_pylist(rows, contract.schema)
            write_deltalake(
                str(self.folder / "warehouse" / contract.name), table, partition_by=list(contract.partition_by)
            )
        return reconcile(self.plan, self.sent if sent else None)


@pytest.fixture(scope="module")
def world(stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    database = "reconciled_master"
    stack.database.create_database(database)
    folder = tmp_path_factory.mktemp("reconciled")
    with stack.database.connect("owner", database) as connection:
        seed(connection, SIZES, progress=False)
    # One partition would hide that offsets repeat from partition to partition.
    shares = {"malformed": 0.05, "unknown": 0.06, "null_keys": 0.04, "duplicates": 0.03}
    workload = Workload(topics={TOPIC: 1.0}, sizes=SIZES, **shares)
    sent = generate(bootstrap=stack.kafka.bootstrap, workload=workload, messages=MESSAGES, partitions=3, progress=False)
    plan = resolve(settings.load(None, assignments(stack, database, TOPIC, folder), {}))
    facts, rejects = right_tables(plan, stack.database.connect("owner", database))
    yield World(plan, sent, facts, rejects, folder)
    stack.database.drop_database(database)
    stack.kafka.delete_topic(TOPIC)


def assignments(stack, database: str, topic: str, folder: Path) -> list[str]:
    reader = stack.database.accounts.reader
    return [
        f"kafka.bootstrap={stack.kafka.bootstrap}",
        f"kafka.topics={topic}",
        "master.host=127.0.0.1",
        f"master.port={stack.database.port}",
        f"master.user={reader.user}",
        f"master.password={reader.password}",
        f"master.database={database}",
        f"warehouse.path={folder / 'warehouse'}",
    ]


def right_tables(plan: Plan, connection: Any) -> tuple[Rows, Rows]:
    """What the job should write, made from dictionaries."""
    messages = read_all(plan.settings.kafka.bootstrap, plan.settings.kafka.topics[0])
    parsed = Parser(plan.default_topic, 1 << 20).parse(messages["message.value"].combine_chunks())
    sales = messages.take(pa.array(parsed.valid))
    for name in parsed.sales.column_names:
        sales = sales.append_column(f"sale.{name}", parsed.sales[name])
    rows = sales.to_pylist()
    for name, contract in plan.dimensions.items():
        [key] = contract.natural_key
        columns = ", ".join([key.column, contract.surrogate_key, contract.updated_at, *contract.attributes])
        with connection.cursor() as cursor:
            cursor.execute("SET time_zone = '+00:00'")
            cursor.execute(f"SELECT {columns} FROM {contract.table}")
            master = {row[0]: row[1:] for row in cursor.fetchall()}
        absent = (-1, *[None] * (1 + len(contract.attributes)))
        for row in rows:
            values = master.get(row[f"sale.{key.field}"], absent)
            row |= {f"{name}.{column}": value for column, value in zip(contract.columns.names, values, strict=True)}
    types = {c.source: c.type for c in plan.facts.columns if c.source in rows[0]}
    joined = pa.Table.from_pylist(rows, pa.schema(list(types.items())))
    rejected = messages.take(pa.array(parsed.rejected))
    rejected = rejected.append_column("reject.reason", parsed.reasons).append_column("reject.detail", parsed.details)
    name = plan.settings.job.name
    return (
        fact_columns.to_columns(plan.facts, joined, name, 0).to_pylist(),
        fact_columns.to_columns(plan.rejects, rejected, name, 0).to_pylist(),
    )


def read_all(bootstrap: str, topic: str) -> pa.Table:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap)
    partitions = [TopicPartition(topic, p) for p in consumer.partitions_for_topic(topic)]
    end = consumer.end_offsets(partitions)
    consumer.assign(partitions)
    consumer.seek_to_beginning()
    rows: Rows = []
    while any(consumer.position(p) < end[p] for p in partitions):
        for p, records in consumer.poll(timeout_ms=1_000).items():
            rows += [
                {"message.topic": topic, "message.partition": p.partition, "message.offset": r.offset,
                 "message.timestamp": r.timestamp * 1_000, "message.value": r.value}
                for r in records
            ]  # fmt: skip
    consumer.close()
    return pa.Table.from_pylist(rows, pa.schema(list(columns.MESSAGE.items())))


def test_right_tables_pass_every_check(world: World) -> None:
    verdict = world.verdict()
    assert verdict.ok, str(verdict)
    names = {check.name for check in verdict.checks}
    assert {
        "messages lost",
        "product: facts that differ from SQL",
        "sent duplicates = repeated ids",
    } <= names
    sampled = next(check for check in verdict.checks if check.name == "messages sampled")
    assert int(sampled.found.replace(",", "")) >= 1_000


def matched(rows: Rows) -> dict[str, Any]:
    return next(
        row for row in rows if row["product_key"] != -1 and row["customer_key"] != -1 and row["store_key"] != -1
    )


def unknown(rows: Rows) -> dict[str, Any]:
    return next(row for row in rows if row["product_key"] == -1 and row["product_code"] is not None)


def null(rows: Rows) -> dict[str, Any]:
    return next(row for row in rows if row["customer_number"] is None)


def lose_a_fact(world: World) -> None:
    world.facts.pop(17)


def lose_a_reject(world: World) -> None:
    world.rejects.pop(3)


def lose_the_last_message_of_a_partition(world: World) -> None:
    of_partition = [row for row in (*world.facts, *world.rejects) if row["partition"] == 1]
    last = max(of_partition, key=lambda row: row["offset"])
    for rows in (world.facts, world.rejects):
        rows[:] = [row for row in rows if row is not last]


def repeat_a_fact(world: World) -> None:
    world.facts.append({**world.facts[5], "batch": 1})


def put_a_message_into_both_tables(world: World) -> None:
    world.rejects.append({**world.rejects[0], **{k: world.facts[0][k] for k in ("topic", "partition", "offset")}})


def invent_an_offset(world: World) -> None:
    world.facts.append({**world.facts[0], "offset": 10**6})


def swap_two_offsets(world: World) -> None:
    """Each fact gets its neighbour's offset: nothing is lost or repeated, and every row is wrong."""
    of_partition = sorted((row for row in world.facts if row["partition"] == 0), key=lambda row: row["offset"])
    for one, other in zip(of_partition[::2], of_partition[1::2], strict=False):
        one["offset"], other["offset"] = other["offset"], one["offset"]


def confuse_two_surrogate_keys(world: World) -> None:
    matched(world.facts)["product_key"] += 1


def give_the_key_of_another_dimension(world: World) -> None:
    row = matched(world.facts)
    row["customer_key"] = row["store_key"]


def change_an_attribute(world: World) -> None:
    matched(world.facts)["customer_country"] = "??"


def miss_a_row_that_is_there(world: World) -> None:
    matched(world.facts).update(store_key=-1, store_region=None, store_version=None)


def match_what_is_absent(world: World) -> None:
    row, right = unknown(world.facts), matched(world.facts)
    row.update(
        {column: right[column] for column in ("product_key", "product_category", "product_brand", "product_version")}
    )


def match_a_null_key(world: World) -> None:
    row, right = null(world.facts), matched(world.facts)
    row.update({c: right[c] for c in ("customer_key", "customer_segment", "customer_country", "customer_version")})


def keep_an_attribute_beside_the_unknown_member(world: World) -> None:
    unknown(world.facts)["product_brand"] = "left over"


def round_every_price(world: World) -> None:
    for row in world.facts:
        row["unit_price"] = row["unit_price"].quantize(Decimal(1)).quantize(Decimal("0.01"))


def shift_every_sale_by_an_hour(world: World) -> None:
    for row in world.facts:
        row["sold_at"] += timedelta(hours=1)


def forget_the_timestamp(world: World) -> None:
    for row in world.facts:
        row["kafka_timestamp"] += timedelta(milliseconds=1)


def trim_the_raw_bytes(world: World) -> None:
    for row in world.rejects:
        row["raw"] = row["raw"] and row["raw"][:-1]


def make_a_fact_of_a_reject(world: World) -> None:
    for reject in world.rejects:
        identity = {name: reject[name] for name in ("topic", "partition", "offset", "kafka_timestamp", "received_on")}
        world.facts.append({**matched(world.facts), **identity})
    world.rejects.clear()


LOST, TWICE, INVENTED = "messages lost", "messages twice", "rows without a message"
PRODUCT, CUSTOMER, STORE = (f"{name}: facts that differ from SQL" for name in ("product", "customer", "store"))
RAW, RAW_REJECTS = "facts that differ from their message", "rejects that differ from their message"


@pytest.mark.parametrize(
    "changes",
    [
        {
            lose_a_fact: LOST,
            repeat_a_fact: TWICE,
            invent_an_offset: INVENTED,
            confuse_two_surrogate_keys: PRODUCT,
            give_the_key_of_another_dimension: CUSTOMER,
            miss_a_row_that_is_there: STORE,
            round_every_price: RAW,
            trim_the_raw_bytes: RAW_REJECTS,
        },
        {
            lose_a_reject: LOST,
            put_a_message_into_both_tables: TWICE,
            match_what_is_absent: PRODUCT,
            match_a_null_key: CUSTOMER,
            forget_the_timestamp: RAW,
        },
        {lose_the_last_message_of_a_partition: LOST, keep_an_attribute_beside_the_unknown_member: PRODUCT},
        {change_an_attribute: CUSTOMER, shift_every_sale_by_an_hour: RAW},
        {swap_two_offsets: RAW},
        {make_a_fact_of_a_reject: RAW},
    ],
    ids=lambda changes: "-".join(change.__name__ for change in changes),
)
def test_what_is_wrong_is_found_and_named(changes: dict[Callable[[World], None], str], world: World) -> None:
    def all_changes(world: World) -> None:
        for change in changes:
            change(world)

    verdict = world.verdict(all_changes, sent=False)
    assert not verdict.ok
    failed = {check.name: check for check in verdict.failed}
    assert set(changes.values()) <= set(failed), str(verdict)
    # These two follow from lost and repeated messages.
    assert set(failed) - set(changes.values()) <= {"messages in Kafka = facts + rejects", "messages sampled"}
    assert all(len(check.where) > 15 for check in failed.values())


def test_what_is_lost_or_repeated_is_named_by_its_offset(world: World) -> None:
    gone, again = world.facts[17], world.facts[40]

    def change(world: World) -> None:
        world.facts.append(dict(world.facts[40]))
        world.facts.pop(17)

    failed = {check.name: check.where for check in world.verdict(change).failed}
    assert f"{TOPIC}/{gone['partition']}@{gone['offset']}" in failed[LOST]
    assert f"{TOPIC}/{again['partition']}@{again['offset']}" in failed[TWICE]


@pytest.mark.parametrize("count", ["valid", "duplicates"])
def test_the_generators_counts_must_agree(count: str, world: World) -> None:
    of_topic = world.sent.topics[TOPIC]
    setattr(of_topic, count, getattr(of_topic, count) + 1)
    try:
        verdict = world.verdict()
    finally:
        setattr(of_topic, count, getattr(of_topic, count) - 1)
    [failed] = verdict.failed
    assert failed.name.startswith(f"sent {count}")


def test_rows_of_another_application_are_not_ours(world: World) -> None:
    def change(world: World) -> None:
        world.facts.extend({**row, "application": "another"} for row in world.facts[:100])

    assert world.verdict(change).ok


def test_a_master_row_that_changed_since_may_differ_but_not_in_its_key(stack, world: World) -> None:
    code = matched(world.facts)["product_code"]
    database = world.plan.settings.master.database

    def sql(statement: str) -> None:
        with stack.database.connect("owner", database) as connection, connection.cursor() as cursor:
            cursor.execute("SET time_zone = '+00:00'")
            cursor.execute(statement, (code,))

    later = "updated_at = updated_at + INTERVAL 1 DAY"
    sql(f"UPDATE product SET brand = CONCAT(brand, '!'), {later} WHERE product_code = %s")
    verdict = world.verdict()
    assert verdict.ok, str(verdict)
    assert any("with an earlier version" in check.found for check in verdict.checks)
    sql("UPDATE product SET product_key = product_key + 1, updated_at = updated_at WHERE product_code = %s")
    try:
        assert [check.name for check in world.verdict().failed] == ["product: facts that differ from SQL"]
    finally:
        undo = "product_key = product_key - 1, brand = LEFT(brand, CHAR_LENGTH(brand) - 1)"
        sql(f"UPDATE product SET {undo}, updated_at = updated_at - INTERVAL 1 DAY WHERE product_code = %s")


def test_offsets_that_a_transaction_left_empty_are_not_lost(stack, world: World, topic: str, tmp_path: Path) -> None:
    stack.kafka.create_topic(topic, 1)
    producer = KafkaProducer(bootstrap_servers=stack.kafka.bootstrap, transactional_id=topic)
    producer.init_transactions()
    for number in range(2):
        producer.begin_transaction()
        producer.send(topic, b"no sale %d" % number)
        producer.commit_transaction()
    producer.close()
    database = world.plan.settings.master.database
    plan = resolve(settings.load(None, assignments(stack, database, topic, tmp_path), {}))
    facts, rejects = [], []
    for row in read_all(stack.kafka.bootstrap, topic).to_pylist():
        place = {"topic": topic, "partition": 0, "offset": row["message.offset"], "raw": row["message.value"]}
        at = row["message.timestamp"]
        rejects.append({**world.rejects[0], **place, "kafka_timestamp": at, "received_on": at.date()})
    assert [row["offset"] for row in rejects] == [0, 2]  # 1 and 3 are the transactions' own
    verdict = World(plan, Sent({}), facts, rejects, tmp_path).verdict(sent=False)
    assert verdict.ok, str(verdict)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_messages_are_read_back_however_they_were_compressed(codec: str, stack, topic: str) -> None:
    values = [b"", b"x" * 70_000, *(b'{"number": %d}' % number for number in range(300))]
    producer = Producer({"bootstrap.servers": stack.kafka.bootstrap, "compression.type": codec, "linger.ms": 200})
    stack.kafka.create_topic(topic, 1)
    sent_at = time.time_ns() // 1_000_000  # not longer ago than Kafka keeps messages
    for value in values:
        producer.produce(topic, value, timestamp=sent_at)
    producer.flush()
    broker = Broker(settings.KafkaSettings(bootstrap=stack.kafka.bootstrap, topics=(topic,)))
    found = list(broker.read(Place(topic, 0), 1, len(values) - 2))
    broker.close()
    assert found == [Message(n, sent_at, v) for n, v in enumerate(values[:-1]) if n]


def test_a_composite_key_is_compared_column_by_column(stack, world: World, tmp_path: Path) -> None:
    database = world.plan.settings.master.database
    with stack.database.connect("owner", database) as connection, connection.cursor() as cursor:
        cursor.execute(
            "CREATE TABLE listing (code VARCHAR(32), shop VARCHAR(32), sk BIGINT, changed TIMESTAMP(6), "
            "PRIMARY KEY (code, shop))"
        )
        cursor.execute(
            "INSERT INTO listing SELECT DISTINCT product_code, store_code, ASCII(RIGHT(product_code, 1)) * 1000 + "
            "ASCII(RIGHT(store_code, 1)), '2026-01-02 03:04:05' FROM product, store"
        )
    stack.database.allow_reading(["listing"], database)
    contracts = tmp_path / "contracts"
    (contracts / "dimensions").mkdir(parents=True)
    (contracts / "dimensions" / "listing.toml").write_text(
        'table = "listing"\nsurrogate_key = "sk"\nupdated_at = "changed"\n'
        '[[natural_key]]\ncolumn = "code"\nfield = "product_code"\ntype = "string"\n'
        '[[natural_key]]\ncolumn = "shop"\nfield = "store_code"\ntype = "string"\n'
    )
    shipped = resources.schemas() / "tables" / "fact_sales.toml"
    (contracts / "tables").mkdir()
    (contracts / "tables" / "fact_sales.toml").write_text(
        shipped.read_text() + '[[column]]\nname = "listing_key"\ntype = "int64"\nfrom = "listing.surrogate_key"\n'
    )
    chosen = [
        *assignments(stack, database, TOPIC, tmp_path),
        f"contracts.folder={contracts}",
        *(f"dimensions.{name}.memory=4 MiB" for name in ("product", "customer", "store", "listing")),
    ]
    plan = resolve(settings.load(None, chosen, {}))

    def listing_key(row: dict[str, Any]) -> int:
        known = row["product_key"] != -1 and row["store_key"] != -1
        return ord(row["product_code"][-1]) * 1000 + ord(row["store_code"][-1]) if known else -1

    facts = [{**row, "listing_key": listing_key(row)} for row in world.facts]
    listed = World(plan, world.sent, facts, world.rejects, tmp_path)
    verdict = listed.verdict(sent=False)
    assert verdict.ok, str(verdict)

    def confuse(world: World) -> None:
        matched(world.facts)["listing_key"] += 1

    assert [check.name for check in listed.verdict(confuse, sent=False).failed] == [
        "listing: facts that differ from SQL"
    ]


def own_tables(world: World, drop: set[str], rejects_drop: set[str] = frozenset()) -> World:
    """The same rows in tables whose columns have other names, without those from some sources."""

    def renamed(contract: TableContract, gone: set[str]) -> TableContract:
        columns = [replace(c, name=f"own_{c.name}") for c in contract.columns if c.source not in gone]
        return TableContract(f"own_{contract.name}", tuple(columns), ())

    def rows_of(contract: TableContract, rows: Rows) -> Rows:
        return [{c.name: row[c.name.removeprefix("own_")] for c in contract.columns} for row in rows]

    facts, rejects = renamed(world.plan.facts, drop), renamed(world.plan.rejects, rejects_drop)
    plan = replace(world.plan, facts=facts, rejects=rejects)
    return World(plan, world.sent, rows_of(facts, world.facts), rows_of(rejects, world.rejects), world.folder)


_ATTRIBUTES = {
    f"{d}.{c}" for d in ("product", "customer") for c in ("updated_at", "category", "brand", "segment", "country")
}
_STORE = {"store.surrogate_key", "store.updated_at", "store.region"}


def test_own_facts_may_rename_columns_and_leave_out_all_but_what_the_proof_goes_by(world: World) -> None:
    spared = {"sale.sale_id", "sale.unit_price", "message.timestamp", "message.date", "job.application", "job.batch"}
    own = own_tables(world, _ATTRIBUTES | _STORE | spared, {"message.value", "reject.detail", "job.batch"})
    verdict = own.verdict()
    assert verdict.ok, str(verdict)
    assert "carry no column of it" in str(verdict)  # of the stores

    def confuse(world: World) -> None:
        next(row for row in world.facts if row["own_product_key"] != -1)["own_product_key"] += 1

    assert [check.name for check in own.verdict(confuse).failed] == ["product: facts that differ from SQL"]


@pytest.mark.parametrize("gone", ["sale.product_code", "sale.customer_number", "message.offset", "message.topic"])
def test_facts_without_what_the_proof_goes_by_are_refused_with_all_that_lacks(gone: str, world: World) -> None:
    own = own_tables(world, {gone, "sale.store_code"})
    with pytest.raises(NotReconcilable, match=re.escape(gone)) as refused:
        own.verdict()
    assert "sale.store_code" in str(refused.value)
    assert "natural keys as sent" in str(refused.value)


def test_rejects_without_their_offsets_are_refused(world: World) -> None:
    with pytest.raises(NotReconcilable, match=r"own_sales_rejects has no column from 'message.offset'"):
        own_tables(world, set(), {"message.offset"}).verdict()


def test_a_table_on_disk_that_is_older_than_its_contract_is_refused(world: World) -> None:
    world.verdict()
    later = TableColumn("coupon", pa.string(), "sale.currency", "")
    contract = replace(world.plan.facts, columns=(*world.plan.facts.columns, later))
    with pytest.raises(NotReconcilable, match=r"has no column coupon.*Run the job once"):
        reconcile(replace(world.plan, facts=contract))


def test_what_the_database_refuses_is_a_sentence(world: World) -> None:
    world.verdict()
    elsewhere = replace(world.plan.dimensions["store"], table="no_such_table")
    plan = replace(world.plan, dimensions={**world.plan.dimensions, "store": elsewhere})
    with pytest.raises(NotReconcilable, match=r"refused a query: .*no_such_table.*SELECT"):
        reconcile(plan)


@pytest.mark.parametrize("text", [None, "{", "[]", "{}", '{"topics": {"sales": 3}}'])
def test_a_file_that_is_no_report_is_refused(text: str | None, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "sent.json").write_text(text)
    with pytest.raises(BadSetting, match="no report of"):
        Sent.read(tmp_path / "sent.json")


def test_without_tables_the_error_says_where_they_were_looked_for(world: World, tmp_path: Path) -> None:
    elsewhere = resolve(settings.load(None, [f"warehouse.path={tmp_path}"], {}))
    # The tables are looked at first, so no broker has to answer at the default address.
    with pytest.raises(NotReconcilable, match=str(tmp_path)):
        reconcile(elsewhere)
