"""Several real brokers, one of which leads a partition, or all of them, dies, comes back and leads again."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import ElectionType, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from pipeline.config.settings import KafkaSettings, WorkerSettings
from pipeline.driver.topics import Topics
from pipeline.kafka.client import client_of
from pipeline.kafka.cluster import Cluster
from pipeline.kafka.ranges import Range
from pipeline.kafka.reader import messages
from pipeline.laptop.stack.kafka import KafkaBroker
from pipeline.laptop.stack.ports import LOOPBACK
from pipeline.laptop.stack.process import Server
from pipeline.laptop.stack.stack import start_on_free_ports
from tests.kit.brokers import bootstrap, three
from tests.kit.running import wait_until

pytestmark = pytest.mark.slow

MESSAGES = 20_000


class SecondBroker(KafkaBroker):
    """Joins the first one's cluster, and has no controller of its own."""

    def __init__(self, folder: Path, first: KafkaBroker) -> None:
        super().__init__(folder, supervised=True)
        self._first, self.cluster = first, first.cluster

    def _properties(self, data: Path) -> str:
        own = {
            "process.roles": "broker",
            "node.id": "2",
            "controller.quorum.voters": f"1@{LOOPBACK}:{self._first.ports['controller']}",
            "listeners": f"PLAINTEXT://{LOOPBACK}:{self.port}",
        }
        lines = [line for line in super()._properties(data).splitlines() if line.split("=")[0].strip() not in own]
        return "\n".join([*lines, *(f"{name}={value}" for name, value in own.items())])


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[tuple[KafkaBroker, KafkaBroker]]:
    first = KafkaBroker(tmp_path / "first", supervised=True)
    second = SecondBroker(tmp_path / "second", first)
    try:
        for broker in (first, second):
            start_on_free_ports(broker)
        yield first, second
    finally:
        for broker in (second, first):
            broker.stop()


def test_a_partition_is_read_to_its_end_whoever_leads_it(brokers: tuple[KafkaBroker, KafkaBroker]) -> None:
    first, second = brokers
    admin = AdminClient({"bootstrap.servers": first.bootstrap})

    def leader() -> int:
        known = admin.list_topics(timeout=10).topics.get("sales")
        return int(known.partitions[0].leader) if known and known.partitions else -1

    wait_until(lambda: set(admin.list_topics(timeout=10).brokers) == {1, 2}, "both brokers are there", 30)
    admin.create_topics([NewTopic("sales", 1, replica_assignment=[[2, 1]])])["sales"].result(30)
    wait_until(lambda: leader() == 2, "the second broker leads", 30)
    producer = Producer({"bootstrap.servers": first.bootstrap, "acks": "all", "batch.size": 50_000})
    for number in range(MESSAGES):
        producer.produce("sales", f"{number}".encode().ljust(300))
    assert producer.flush(60) == 0

    both = ",".join(broker.bootstrap for broker in brokers)
    cluster = Cluster(client_of(both, {}))
    limits = replace(WorkerSettings(), window_bytes=1 << 20)
    coming = messages([Range("sales", 0, 0, MESSAGES)], cluster, limits)
    found = next(coming).column("offset").to_pylist()
    assert len(found) < MESSAGES // 2
    second.kill()
    # Some of what comes next may have been fetched before.
    while cluster.leader("sales", 0) != 1:
        found += next(coming).column("offset").to_pylist()
    assert leader() == 1
    assert len(found) < MESSAGES

    second.start()

    def leads_again() -> bool:
        admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition("sales", 0)]).result(30)
        return leader() == 2

    wait_until(leads_again, "the second broker leads again", 60)
    for some in coming:
        found += some.column("offset").to_pylist()
    assert found == list(range(MESSAGES))
    assert cluster.leader("sales", 0) == 2
    cluster.close()


def test_the_job_s_client_hears_of_topics_from_the_others_when_the_broker_it_took_for_the_controller_is_gone(
    tmp_path: Path,
) -> None:
    peers = three(tmp_path)
    with ThreadPoolExecutor(len(peers)) as threads:
        try:
            list(threads.map(Server.start, peers))
            peers[0].create_topic("sales", 3, copies=3)
            topics = Topics(KafkaSettings(bootstrap=bootstrap(peers), topics=("sales",)), within=5)
            [known] = topics.ids().values()
            told = topics._admin.list_topics(timeout=10).controller_id
            next(peer for peer in peers if peer.number == told).kill()

            def hears() -> bool:
                with contextlib.suppress(KafkaException):
                    return topics.ids() == {"sales": known}
                return False

            wait_until(hears, "the others tell of the topic", 60)  # its client of before waited for two minutes
        finally:
            list(threads.map(Server.stop, peers))
