"""Three Kafka brokers on loopback, each with a vote in who controls them, and who leads what among them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from pipeline.java import runtime
from pipeline.laptop.stack.kafka import KafkaBroker
from pipeline.laptop.stack.ports import LOOPBACK
from tests.kit.running import wait_until

COPIES = 3
IN_SYNC = {"min.insync.replicas": "2"}  # a message is acknowledged when two have it: so one broker may be away


class Peer(KafkaBroker):
    """One of several. They are started at once: a single one has no majority to answer with."""

    def __init__(self, folder: Path, number: int, peers: Sequence[Peer]) -> None:
        super().__init__(folder / f"broker-{number}", supervised=True)
        self.number, self._peers = number, peers
        self.cluster = peers[0].cluster if peers else self.cluster

    def _properties(self, data: Path) -> str:
        voters = ",".join(f"{peer.number}@{LOOPBACK}:{peer.ports['controller']}" for peer in self._peers)
        own = {
            "node.id": self.number,
            "controller.quorum.voters": voters,
            "offsets.topic.replication.factor": COPIES,
            "transaction.state.log.replication.factor": COPIES,
            "transaction.state.log.min.isr": 2,
        }
        # Of a name that comes twice the last one counts.
        return super()._properties(data) + runtime.properties(own)


def three(folder: Path) -> list[Peer]:
    """With their ports, because each names all voters' before it is started."""
    peers: list[Peer] = []
    for number in range(1, COPIES + 1):
        peers.append(Peer(folder, number, peers))
    for peer in peers:
        peer.choose_ports()
    return peers


def bootstrap(peers: Sequence[Peer]) -> str:
    return ",".join(peer.bootstrap for peer in peers)


def leader(peers: Sequence[Peer], topic: str, partition: int) -> Peer | None:
    """Who leads it now, asked of those that answer; None while nobody does."""
    told = _partitions(peers, topic).get(partition)
    return next((peer for peer in peers if told and peer.number == told.leader), None)


def await_copies(peers: Sequence[Peer], topic: str) -> None:
    """Until each partition has all its copies in step: then one of them may go."""

    def in_step() -> bool:
        told = _partitions(peers, topic).values()
        return bool(told) and all(len(partition.isrs) == COPIES for partition in told)

    wait_until(in_step, f"all copies of {topic} in step", every=0.2)


def _partitions(peers: Sequence[Peer], topic: str) -> dict[int, Any]:
    """By the first that answers. One that was away, or is frozen, would tell of its own time or not at all."""
    for peer in peers:
        try:
            admin = AdminClient({"bootstrap.servers": peer.bootstrap, "log_level": 0})
            return dict(admin.list_topics(topic, timeout=2).topics[topic].partitions)
        except KafkaException:
            continue
    return {}
