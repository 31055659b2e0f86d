"""Both readers give the same messages of the same batches, whatever is in the topics: Spark's source is the oracle."""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.base import StreamingQueryException
from pyspark.sql import SparkSession

from pipeline import source
from pipeline.config.settings import load
from pipeline.driver.checkpoint import Checkpoint
from pipeline.driver.cluster import Messages, end_tasks
from pipeline.driver.readers import make_reader
from pipeline.laptop.stack.stack import Stack
from tests.kit.reading import Message, Stream
from tests.kit.running import wait_until

THERE_BE_DRAGONS = 253_402_300_800_001  # a time of Kafka's behind all calendars, in ms
SENT_AT = int(time.time() * 1000)  # a broker that has run for minutes deletes what is older than its week
READERS = ("spark", "direct")


@pytest.fixture
def stream(spark: SparkSession, stack: Stack, tmp_path: Path) -> Callable[..., Stream]:
    def make(reader: str, **settings: str) -> Stream:
        folder = tmp_path / f"{reader}-{uuid.uuid4().hex[:6]}"
        folder.mkdir()
        given = {"kafka.bootstrap": stack.kafka.bootstrap, "kafka.reader": reader, "job.trigger": "available-now"}
        given |= {"job.checkpoint": str(folder / "checkpoint")}
        given |= {name.replace("__", "."): value for name, value in settings.items()}
        return Stream(spark, folder, load(None, [f"{name}={value}" for name, value in given.items()], {}))

    return make


DRAGON = b"late"


def send(stack: Stack, topic: str, values: list[bytes | None], partitions: int = 2, **client: str) -> None:
    producer = Producer({"bootstrap.servers": stack.kafka.bootstrap, "message.max.bytes": 8 << 20, **client})
    for number, value in enumerate(values):
        key, headers = (b"key", [("trace", b"\1\2")]) if number % 3 else (None, None)
        sent_at = THERE_BE_DRAGONS if value == DRAGON else SENT_AT - number
        producer.produce(topic, value, key, number % partitions, timestamp=sent_at, headers=headers)
    assert producer.flush(30) == 0


def messages_of(topic: str, values: list[bytes | None], partitions: int = 2) -> list[Message]:
    return sorted(
        ((topic, number % partitions, number // partitions, value) for number, value in enumerate(values)),
        key=lambda message: message[:3],
    )


def test_untidy_messages_of_every_compression_in_many_batches(stream, stack: Stack, topic: str) -> None:
    stack.kafka.create_topic(topic, 2, {"message.timestamp.after.max.ms": str((1 << 63) - 1)})
    values: list[bytes | None] = []
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        some: list[bytes | None] = [None, b"", b"\xff\xfe", DRAGON, b"x" * 3_000_000]
        some += [f"{codec} {n}".encode() * (n % 50) for n in range(301)]  # an even number: partitions take turns
        send(stack, topic, some, **{"compression.type": codec, "linger.ms": "50"})
        values += some
    read, times = {}, {}
    for reader in READERS:
        each = stream(reader, kafka__topics=topic, job__max_offsets_per_trigger="400", worker__window_bytes="1 MiB")
        read[reader], times[reader] = each.read(), each.times
        assert len(each.planned) == 4
        assert set(each.tasks) == {2}
    assert read["direct"] == read["spark"] == messages_of(topic, values)
    assert times["direct"] == times["spark"]
    assert max(times["direct"]) == source.LAST_MOMENT.value


def test_one_partition_keeps_all_workers_busy(stream, stack: Stack, topic: str) -> None:
    stack.kafka.create_topic(topic, 1)
    values = [f"{n}".encode() for n in range(3_001)]
    send(stack, topic, values, 1)
    for reader in READERS:
        each = stream(reader, kafka__topics=topic)
        assert each.read() == messages_of(topic, values, 1)
        assert each.tasks == [2]


def test_only_what_was_committed_is_read_also_in_batches_that_end_in_control_records_or_hold_nothing_else(
    stream, stack: Stack, topic: str
) -> None:
    stack.kafka.create_topic(topic, 1)
    settings = {"bootstrap.servers": stack.kafka.bootstrap, "transactional.id": topic, "linger.ms": 50}
    producer = Producer(settings)
    producer.init_transactions(30)
    for transaction in range(6):
        producer.begin_transaction()
        for number in range(5 if transaction != 3 else 0):
            producer.produce(topic, f"{transaction}/{number}".encode())
        producer.flush(30)
        (producer.abort_transaction if transaction % 2 else producer.commit_transaction)(30)
    read = {}
    for reader in READERS:
        committed = stream(reader, kafka__topics=topic, job__max_offsets_per_trigger="8", **ISOLATED)
        everything = stream(reader, kafka__topics=topic)
        read[reader] = committed.read(), everything.read(), committed.planned
    assert read["direct"] == read["spark"]
    committed, everything, _ = read["direct"]
    assert [value for *_, value in committed] == [f"{t}/{n}".encode() for t in (0, 2, 4) for n in range(5)]
    assert {value[:1] for *_, value in everything} == {b"0", b"1", b"2", b"4", b"5"}


ISOLATED = {"kafka.client.isolation.level": "read_committed"}


def test_a_pattern_new_partitions_and_given_starts_are_planned_alike_and_gone_on_from_by_the_other_reader(
    stream, stack: Stack, topic: str
) -> None:
    one, other = f"{topic}-one", f"{topic}-other"
    stack.kafka.create_topic(one, 1)
    first = [f"first {n}".encode() for n in range(100)]
    send(stack, one, first, 1)
    given = f'{{"{one}": {{"0": 40}}}}'
    streams = {r: stream(r, kafka__topic_pattern=f"{topic}-.*", kafka__starting_offsets=given) for r in READERS}
    for each in streams.values():
        assert each.read() == messages_of(one, first, 1)[40:]
    stack.kafka.add_partitions(one, 2)
    stack.kafka.create_topic(other, 2)
    send(stack, other, first)
    producer = Producer({"bootstrap.servers": stack.kafka.bootstrap})
    producer.produce(one, b"new", partition=1)
    assert producer.flush(30) == 0
    expected = [(one, 1, 0, b"new"), *messages_of(other, first)]
    swapped = {"spark": "direct", "direct": "spark"}
    for reader, each in streams.items():
        exchanged = stream(swapped[reader], kafka__topic_pattern=f"{topic}-.*", kafka__starting_offsets=given)
        goes_on = Stream(each.spark, each.folder, exchanged.settings)
        object.__setattr__(goes_on.settings.job, "checkpoint", each.settings.job.checkpoint)
        assert goes_on.read() == expected


@pytest.mark.slow
def test_gaps_of_compaction_are_no_loss(stream, stack: Stack, topic: str) -> None:
    compacted = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01"}
    stack.kafka.create_topic(topic, 1, compacted)
    producer = Producer({"bootstrap.servers": stack.kafka.bootstrap, "linger.ms": 5})
    for number in range(2_000):
        producer.produce(topic, f"{number}", f"{number % 7}" if number % 100 else f"once {number}")
        if number % 200 == 0:
            producer.flush(30)
    assert producer.flush(30) == 0
    looked: list[int] = []

    def cleaned() -> bool:
        producer.produce(topic, b"a segment only ends when more comes", b"last")
        producer.flush(30)
        looked.append(len(stream("spark", kafka__topics=topic).read()))
        return looked[-1] < 500

    wait_until(cleaned, "Kafka has compacted the topic", 120)
    read = {}
    for reader in READERS:
        each = stream(reader, kafka__topics=topic, job__max_offsets_per_trigger="300")
        read[reader] = each.read()
    assert read["direct"] == read["spark"]
    assert {b"100", b"1100"} <= {value for *_, value in read["direct"]}


@pytest.mark.parametrize("reader", READERS)
def test_messages_that_kafka_has_deleted_end_the_query_and_none_is_skipped(
    stream, stack: Stack, topic: str, reader: str
) -> None:
    stack.kafka.create_topic(topic, 1)
    send(stack, topic, [b"read"] * 10, 1)
    each = stream(reader, kafka__topics=topic)
    assert len(each.read()) == 10
    send(stack, topic, [b"lost"] * 10 + [b"still there"] * 10, 1)
    admin = AdminClient({"bootstrap.servers": stack.kafka.bootstrap})
    next(iter(admin.delete_records([TopicPartition(topic, 0, 20)]).values())).result(30)
    with pytest.raises(StreamingQueryException) as refused:
        each.read()
    assert each.tasks == [2]
    if reader == "direct":
        assert f"deleted messages before they were read: {topic}/0 offsets 10 to " in str(refused.value)


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS)
def test_a_topic_that_is_shorter_than_it_was_ends_the_query(stream, stack: Stack, topic: str, reader: str) -> None:
    stack.kafka.create_topic(topic, 2)
    send(stack, topic, [b"read"] * 20)
    each = stream(reader, kafka__topic_pattern=f"{topic}.*")
    assert len(each.read()) == 20
    stack.kafka.delete_topic(topic)
    wait_until(lambda: topic not in stack.kafka.topics(), "the topic is gone", 30)
    stack.kafka.create_topic(topic, 2)
    send(stack, topic, [b"another topic"] * 6)
    with pytest.raises(StreamingQueryException):
        each.read()
    assert each.tasks == [2]


@pytest.mark.parametrize("reader", READERS)
def test_workers_are_used_again_from_batch_to_batch(spark: SparkSession, tmp_path: Path, reader: str) -> None:
    settings = load(None, [f"kafka.reader={reader}"], {})
    idle = make_reader(settings, spark, Checkpoint(spark, str(tmp_path))).idle()

    def who(messages: Messages) -> bytes:
        time.sleep(0.2)  # long enough that both tasks of a batch are at work at once
        return str(os.getpid()).encode()

    first, second = (set(idle.run(who)) for _ in range(2))
    assert first == second
    assert len(first) == spark.sparkContext.defaultParallelism


@pytest.mark.parametrize("reader", READERS)
def test_tasks_that_are_ended_have_left_the_workers(spark: SparkSession, tmp_path: Path, reader: str) -> None:
    """Those that a job cannot wait for, because it was refused while its workers were made ready."""
    settings = load(None, [f"kafka.reader={reader}"], {})
    idle = make_reader(settings, spark, Checkpoint(spark, str(tmp_path))).idle()
    begun, ended = tmp_path / "begun", tmp_path / "ended"

    def endless(messages: Messages) -> bytes:
        begun.touch()
        time.sleep(300)
        return b""

    def run() -> None:
        with pytest.raises(Py4JJavaError, match="cancelled"):
            idle.run(endless)
        ended.touch()

    thread = threading.Thread(target=run)
    thread.start()
    wait_until(begun.exists, "a task has begun")
    end_tasks(spark, 60)
    running = spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()
    assert [executor.numRunningTasks() for executor in running] == [0]
    thread.join(10)
    assert ended.exists()
