"""The generator and the seeder against real servers; what arrived is read by a client that is not the sender's."""

import json
import signal
import subprocess
import sys
from collections import Counter
from datetime import datetime, timezone

import jsonschema
import numpy as np
import pytest
from kafka import KafkaConsumer, TopicPartition

from pipeline.generate import send as sending
from pipeline.generate.keys import PRODUCT, Sizes, product_codes, surrogate_keys
from pipeline.generate.run import generate
from pipeline.generate.seed import SeedRefused, connect, seed
from pipeline.generate.send import SendFailed
from pipeline.generate.sent import Sent, SentToPartition
from pipeline.generate.workload import Workload
from tests.kit.strict_reader import strictly_read

SIZES = Sizes(products=2_000, customers=500, stores=30)
READABLE = {"compression.type": "gzip"}  # kafka-python has no lz4, which is the sender's choice otherwise
NOON = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)


def read(stack, topic: str) -> list:
    """All messages of a topic, partition after partition, as kafka-python sees them."""
    consumer = KafkaConsumer(
        bootstrap_servers=stack.info().bootstrap, fetch_max_bytes=64 << 20, max_partition_fetch_bytes=16 << 20
    )
    try:
        partitions = [TopicPartition(topic, number) for number in sorted(consumer.partitions_for_topic(topic))]
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(partitions)
        messages: list = []
        while any(consumer.position(partition) < ends[partition] for partition in partitions):
            for batch in consumer.poll(timeout_ms=1_000).values():
                messages += batch
        return sorted(messages, key=lambda message: (message.partition, message.offset))
    finally:
        consumer.close()


def run(stack, topics: dict[str, float], messages: int | None, **arguments) -> Sent:
    names = ("rate", "seconds", "bursty", "sold_from")
    pace = {name: arguments.pop(name) for name in names if name in arguments}
    client = arguments.pop("client", READABLE)
    workload = Workload(topics=topics, sizes=SIZES, **arguments)
    bootstrap = stack.info().bootstrap
    return generate(
        bootstrap=bootstrap, workload=workload, messages=messages, partitions=3, progress=False, client=client, **pace
    )


def partitions_of(messages: list) -> dict[int, SentToPartition]:
    seen: dict[int, SentToPartition] = {}
    for message in messages:
        counts = seen.setdefault(message.partition, SentToPartition(0, message.offset, message.offset))
        counts.messages += 1
        counts.last_offset = message.offset
    return seen


def is_valid(value: bytes | None) -> bool:
    try:
        strictly_read(value)
    except (ValueError, jsonschema.ValidationError):
        return False
    return True


def test_what_the_report_says_is_what_another_client_reads(stack, topic: str) -> None:
    web = f"{topic}-web"
    sent = run(stack, {topic: 2.0, web: 1.0}, 6_000, malformed=0.1, unknown=0.1, null_keys=0.1, duplicates=0.1)
    assert sent.complete
    assert sent.messages == 6_000
    for name, counts in sent.topics.items():
        messages = read(stack, name)
        assert partitions_of(messages) == counts.partitions
        assert len(messages) == counts.messages
        valid = [strictly_read(message.value) for message in messages if is_valid(message.value)]
        assert len(valid) == counts.valid
        assert len(messages) - len(valid) == sum(counts.malformed.values())
        assert sum(message.value is None for message in messages) == counts.malformed["no_value"]
        assert sum(message.value == b"" for message in messages) == counts.malformed["empty"]
        assert sum(message.value == b"null" for message in messages) == counts.malformed["bare_null"]
        assert sum(sale["customer_number"] is None for sale in valid) == counts.null["customer"]
        known = set(product_codes(np.arange(SIZES.products)).to_pylist()) | {None}
        assert sum(sale["product_code"] not in known for sale in valid) == counts.unknown["product"]
        assert len(valid) - len({sale["sale_id"] for sale in valid}) == counts.duplicates
    assert sent.topics[topic].messages == pytest.approx(4_000, rel=0.1)


def test_a_second_run_reports_its_own_offsets_behind_those_of_the_first(stack, topic: str) -> None:
    first = run(stack, {topic: 1.0}, 1_800)
    second = run(stack, {topic: 1.0}, 1_800, first_sale=first.next_sale)
    ends = [sent.topics[topic].partitions for sent in (first, second)]
    assert {number: seen.last_offset + 1 for number, seen in ends[0].items()} == {
        number: seen.first_offset for number, seen in ends[1].items()
    }
    ids = [json.loads(message.value)["sale_id"] for message in read(stack, topic)]
    assert len(set(ids)) == 3_600


def test_in_simulated_time_the_same_run_gives_the_same_bytes_at_the_same_offsets(stack, topic: str) -> None:
    mixed = {"malformed": 0.05, "duplicates": 0.05, "rate": 5_000.0, "bursty": True, "sold_from": NOON}
    for name in (f"{topic}-1", f"{topic}-2"):
        run(stack, {name: 1.0}, 4_000, **mixed)
    first, second = (
        [(message.partition, message.offset, message.value) for message in read(stack, f"{topic}-{number}")]
        for number in (1, 2)
    )
    assert first == second
    assert len(first) == 4_000


def test_a_rate_is_kept_and_sales_are_sold_just_before_they_are_sent(stack, topic: str) -> None:
    sent = run(stack, {topic: 1.0}, None, rate=2_000.0, seconds=1.5)
    assert sent.complete
    assert 2_500 < sent.messages <= 3_000
    assert sent.seconds == pytest.approx(1.5, abs=0.5)
    started, ended = (datetime.fromisoformat(text) for text in (sent.started_at, sent.ended_at))
    for message in read(stack, topic):
        sold_at = datetime.fromisoformat(json.loads(message.value)["sold_at"].replace("Z", "+00:00"))
        assert sold_at.timestamp() * 1_000 < message.timestamp + 1
        assert (sold_at - started).total_seconds() > -0.01
        assert sold_at < ended


def test_sales_of_one_store_lie_in_one_partition_when_they_are_keyed(stack, topic: str) -> None:
    run(stack, {topic: 1.0}, 3_000, keyed=True, null_keys=0.1)
    messages = read(stack, topic)
    places = {(message.key, message.partition) for message in messages if message.key is not None}
    assert len(places) == len({key for key, _ in places}) == SIZES.stores
    assert all((message.key or b"").decode() == (json.loads(message.value)["store_code"] or "") for message in messages)


def test_messages_wait_when_the_producers_queue_is_full_and_none_is_lost_or_doubled(
    stack, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "_WAITING", 20)  # the queue holds 40, and 500 are handed over at once
    sent = run(stack, {topic: 1.0}, 5_000)
    assert sent.complete
    ids = Counter(json.loads(message.value)["sale_id"] for message in read(stack, topic))
    assert len(ids) == 5_000
    assert max(ids.values()) == 1


def test_a_message_of_five_megabytes_arrives_when_asked_for(stack, topic: str) -> None:
    sent = run(stack, {topic: 1.0}, 200, oversized=0.02)
    large = [message for message in read(stack, topic) if message.value and len(message.value) == 5_000_000]
    assert len(large) == sent.topics[topic].malformed["oversized"] > 0


def test_messages_that_the_broker_refuses_fail_the_run_with_their_number(stack, topic: str) -> None:
    stack.kafka.create_topic(topic, partitions=1, config={"max.message.bytes": "50000"})
    uncompressed = {"compression.type": "none", "batch.size": "10000"}
    with pytest.raises(SendFailed, match="messages were not acknowledged") as failure:
        run(stack, {topic: 1.0}, 200, oversized=0.05, oversized_bytes=200_000, client=uncompressed)
    sent = failure.value.sent
    assert sent is not None
    assert not sent.complete
    arrived = read(stack, topic)
    assert sum(sent.failed.values()) == sent.messages - len(arrived) > 0
    assert sent.topics[topic].partitions == partitions_of(arrived)


def test_without_a_broker_the_error_names_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "_ANSWER_WITHIN", 0.5)
    with pytest.raises(SendFailed, match=r"127\.0\.0\.1:1 "):
        generate(bootstrap="127.0.0.1:1", messages=1, progress=False, client={"log_level": "0"})


def test_ctrl_c_ends_the_run_with_a_report_of_all_that_was_sent(stack, topic: str) -> None:
    program = f"""
from pipeline.generate.run import generate
from pipeline.generate.workload import Workload
print("ready", flush=True)
workload = Workload(topics={{{topic!r}: 1.0}})
print(generate(bootstrap={stack.info().bootstrap!r}, workload=workload, rate=20_000.0, client={READABLE}).to_json())
"""
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        while topic not in stack.kafka.topics() or not read(stack, topic):
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        answer, _ = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 0
    sent = json.loads(answer)
    assert sent["interrupted"]
    assert sent["complete"]
    assert sent["messages"] == len(read(stack, topic)) > 0


@pytest.fixture
def owner(stack, master_database: str):
    info = stack.info()
    connection = connect(info.host, info.port, info.owner.user, info.owner.password, master_database)
    yield connection
    connection.close()


def rows(connection, sql: str) -> list:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())


@pytest.mark.mysql
def test_every_seeded_row_has_the_keys_that_the_generator_draws(owner) -> None:
    done = seed(owner, Sizes(12_345, 1_000, 40), progress=False)
    assert [(table.table, table.rows) for table in done] == [("product", 12_345), ("customer", 1_000), ("store", 40)]
    expected = dict(
        zip(
            product_codes(np.arange(12_345)).to_pylist(),
            surrogate_keys(PRODUCT, np.arange(12_345)).tolist(),
            strict=True,
        )
    )
    assert dict(rows(owner, "SELECT product_code, product_key FROM product")) == expected
    assert rows(owner, "SELECT COUNT(DISTINCT customer_key), MIN(customer_number) > 0 FROM customer") == [(1_000, 1)]
    assert rows(owner, "SELECT COUNT(DISTINCT store_key) FROM store") == [(40,)]


@pytest.mark.mysql
def test_seeded_attributes_vary_and_their_letters_survive(owner) -> None:
    seed(owner, Sizes(5_000, 2_000, 100), progress=False)
    [(categories, brands, moments)] = rows(
        owner, "SELECT COUNT(DISTINCT category), COUNT(DISTINCT brand), COUNT(DISTINCT updated_at) FROM product"
    )
    assert (categories, brands, moments) == (19, 91, 5_000)
    names = {name for (name,) in rows(owner, "SELECT name FROM customer")}
    assert {"佐藤 O'Neill", "Мария Müller"} <= {name for name in names if name.startswith(("佐藤", "Мария"))}
    assert "Málaga" in {city for (city,) in rows(owner, "SELECT city FROM store")}


@pytest.mark.mysql
def test_a_table_with_rows_is_left_as_it_is_unless_it_is_to_be_replaced(owner) -> None:
    seed(owner, Sizes(100, 0, 0), progress=False)
    with pytest.raises(SeedRefused, match=r"table product has rows already.*--replace"):
        seed(owner, Sizes(50, 50, 0), progress=False)
    assert rows(owner, "SELECT COUNT(*) FROM product") == [(100,)]
    assert rows(owner, "SHOW TABLES LIKE 'customer'") == []
    before = rows(owner, "SELECT * FROM product ORDER BY product_code LIMIT 50")
    seed(owner, Sizes(50, 0, 0), replace=True, progress=False)
    assert tuple(rows(owner, "SELECT * FROM product ORDER BY product_code")) == tuple(before)


@pytest.mark.mysql
def test_the_session_s_time_zone_does_not_move_what_is_seeded(owner) -> None:
    seed(owner, Sizes(0, 0, 200), progress=False)
    seconds = "SELECT store_code, UNIX_TIMESTAMP(updated_at) FROM store ORDER BY store_code"
    before = rows(owner, seconds)
    rows(owner, "SET time_zone = '+05:30'")
    seed(owner, Sizes(0, 0, 200), replace=True, progress=False)
    assert rows(owner, seconds) == before
    assert rows(owner, "SELECT @@session.time_zone") == [("+05:30",)]
    assert float(before[0][1]) == datetime(2023, 1, 1, tzinfo=timezone.utc).timestamp()


def test_nothing_to_seed_is_refused(owner) -> None:
    with pytest.raises(SeedRefused, match="sizes"):
        seed(owner, Sizes(0, 0, 0), progress=False)


def test_a_wrong_password_is_one_sentence(stack) -> None:
    info = stack.info()
    with pytest.raises(SeedRefused, match=r"no connection as millrace@.*grant"):
        connect(info.host, info.port, "millrace", "wrong", info.database)
