"""Ranges of offsets from a real broker: all of them, each message once, or an error that says which are not there."""

from __future__ import annotations

import multiprocessing
import socket
import threading
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from pipeline.config.settings import WorkerSettings
from pipeline.errors import BadSetting, KafkaReadFailed, TopicChanged
from pipeline.kafka import cluster as clusters
from pipeline.kafka.client import Client, client_of
from pipeline.kafka.cluster import Cluster, cluster_of
from pipeline.kafka.connection import Connection
from pipeline.kafka.ranges import Range
from pipeline.kafka.reader import messages
from pipeline.laptop.stack.stack import Stack

LIMITS = WorkerSettings()


@pytest.fixture
def client(stack: Stack) -> Client:
    return client_of(stack.kafka.bootstrap, {})


@pytest.fixture
def cluster(client: Client) -> Iterator[Cluster]:
    made = Cluster(client)
    yield made
    made.close()


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses of the connections that were opened."""
    made: list[str] = []

    class Counted(Connection):
        def __init__(self, client: Client, host: str, port: int) -> None:
            super().__init__(client, host, port)
            made.append(self.address)

    monkeypatch.setattr(clusters, "Connection", Counted)
    return made


def send(stack: Stack, topic: str, count: int, partitions: int = 2, size: int = 0, first: int = 0) -> None:
    if topic not in stack.kafka.topics():
        stack.kafka.create_topic(topic, partitions)
    producer = Producer({"bootstrap.servers": stack.kafka.bootstrap, "linger.ms": 20})
    for number in range(first, first + count):
        for partition in range(partitions):
            producer.produce(topic, f"{partition}/{number}".encode().ljust(size), partition=partition)
        producer.poll(0)
    assert producer.flush(60) == 0


def read(ranges: list[Range], cluster: Cluster, **more: float) -> list[tuple[int, int, bytes]]:
    """Partition, offset and value, as they come."""
    found = []
    for some in messages(ranges, cluster, LIMITS, **more):
        columns = [some.column(name).to_pylist() for name in ("partition", "offset", "value")]
        found += list(zip(*columns, strict=True))
    return found


def expected(ranges: list[Range]) -> list[tuple[int, int, bytes]]:
    return [
        (r.partition, offset, f"{r.partition}/{offset}".encode()) for r in ranges for offset in range(r.first, r.end)
    ]


def both(topic: str, first: int, end: int) -> list[Range]:
    return [Range(topic, partition, first, end) for partition in (0, 1)]


def test_exactly_the_ranges_asked_for_come_and_the_connection_is_kept(stack, topic, cluster, opened) -> None:
    send(stack, topic, 1_000)
    for ranges in (both(topic, 0, 400), both(topic, 400, 401), [Range(topic, 1, 990, 1_000)], both(topic, 401, 1_000)):
        came = read(ranges, cluster)
        assert sorted(came) == expected(ranges)
    assert len(opened) == 2  # one to find the leaders, one to the leader of both partitions


def test_a_process_does_not_use_the_connections_it_was_forked_with(stack, topic, client, opened) -> None:
    send(stack, topic, 100)
    ranges = both(topic, 0, 100)
    assert sorted(read(ranges, cluster_of(client))) == expected(ranges)
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    child = context.Process(target=lambda: answers.put(sorted(read(ranges, cluster_of(client)))))
    child.start()
    assert sorted(read(ranges, cluster_of(client))) == expected(ranges)
    assert answers.get() == expected(ranges)
    child.join(30)
    assert cluster_of(client) is cluster_of(client)
    assert len(opened) == 2
    cluster_of(client).close()


def test_what_was_left_half_read_does_not_answer_the_next_question(stack, topic, cluster) -> None:
    send(stack, topic, 4_000, size=1_000)
    left = messages(both(topic, 0, 4_000), cluster, replace(LIMITS, window_bytes=1 << 20))
    first = next(left)
    assert 0 < len(first) < 4_000
    left.close()
    ranges = [Range(topic, 0, 3_990, 4_000)]
    assert [(part, offset) for part, offset, _ in read(ranges, cluster)] == [(0, n) for n in range(3_990, 4_000)]


def test_a_broker_that_starts_again_only_delays_the_messages(stack, topic, cluster) -> None:
    send(stack, topic, 20_000, size=500)
    ranges = both(topic, 0, 20_000)
    coming = messages(ranges, cluster, replace(LIMITS, window_bytes=1 << 20))
    found = [(part, n) for part, n in zip(*_places(next(coming)), strict=True)]
    stack.kafka.kill()
    again = threading.Thread(target=stack.kafka.start)
    again.start()
    try:
        for some in coming:
            found += zip(*_places(some), strict=True)
    finally:
        again.join()
    assert sorted(found) == [(partition, n) for partition in (0, 1) for n in range(20_000)]


def _places(some) -> tuple[list[int], list[int]]:
    return some.column("partition").to_pylist(), some.column("offset").to_pylist()


def test_a_broker_that_stays_away_is_told_with_what_is_missing(topic) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        with pytest.raises(KafkaReadFailed, match=rf"{address}: .*refused.*{topic}/0 offsets 5 to 9\. Nothing is lost"):
            read([Range(topic, 0, 5, 10)], Cluster(client_of(address, {})), patience=0.3)


@pytest.mark.parametrize("says", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x15\x03\x03\x00\x02\x02\x46"])
def test_what_is_no_kafka_broker_is_refused_at_once(says: bytes, topic: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            connection.recv(100)
            connection.sendall(says)
            connection.close()

        threading.Thread(target=answer, daemon=True).start()
        found = Cluster(client_of(f"127.0.0.1:{server.getsockname()[1]}", {}))
        with pytest.raises(BadSetting, match=r"does not answer as a Kafka broker does.*security\.protocol"):
            read([Range(topic, 0, 0, 1)], found)


def test_a_topic_that_is_not_there_is_told(stack, topic, cluster) -> None:
    with pytest.raises(KafkaReadFailed, match=f"{topic}/0 has no leader, or is not there"):
        read([Range(topic, 0, 0, 1)], cluster, patience=0.3)
    assert topic not in stack.kafka.topics()


def delete_before(stack: Stack, topic: str, offset: int) -> None:
    admin = AdminClient({"bootstrap.servers": stack.kafka.bootstrap})
    next(iter(admin.delete_records([TopicPartition(topic, 0, offset)]).values())).result(30)


def test_deleted_messages_are_named_and_not_skipped(stack, topic, cluster) -> None:
    send(stack, topic, 100)
    delete_before(stack, topic, 60)
    for asked, told in (((50, 90), "50 to 59"), ((10, 20), "10 to 19"), ((0, 60), "0 to 59")):
        with pytest.raises(TopicChanged, match=f"deleted messages before they were read: {topic}/0 offsets {told}"):
            read([Range(topic, 0, *asked)], cluster)
    assert read([Range(topic, 0, 60, 100)], cluster) == expected([Range(topic, 0, 60, 100)])


def test_messages_that_are_planned_and_are_not_there_are_named(stack, topic, cluster) -> None:
    send(stack, topic, 10)
    with pytest.raises(TopicChanged, match=f"{topic}/0 ends at offset 10, but offsets 10 to 14 were to be read"):
        read([Range(topic, 0, 5, 15)], cluster, patience=0.3)
    with pytest.raises(TopicChanged, match=f"{topic}/0 ends at offset 10, but offsets 20 to 29 were to be read"):
        read([Range(topic, 0, 20, 30)], cluster)


def test_messages_that_come_a_little_later_than_they_were_planned_are_waited_for(stack, topic, cluster) -> None:
    send(stack, topic, 10)
    ranges = [Range(topic, 0, 0, 20)]
    later = threading.Timer(0.5, send, (stack, topic, 10), {"first": 10})
    later.start()
    assert read(ranges, cluster) == expected(ranges)
    later.join()


def test_memory_is_bounded_by_the_window_however_long_the_range(stack, topic, cluster) -> None:
    send(stack, topic, 30_000, partitions=2, size=1_000)
    window = 1 << 20
    tracemalloc.start()
    try:
        largest = max(
            some.nbytes for some in messages(both(topic, 0, 30_000), cluster, replace(LIMITS, window_bytes=window))
        )
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 0 < largest <= window
    # The answer, its copy per partition, the table of its batches, the columns: and 60 MB went through.
    assert peak < 8 * window
