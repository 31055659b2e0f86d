"""The brokers as a worker knows them: who leads which partition, and a connection to each, kept from batch to batch."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from kafka.protocol.consumer import ListOffsetsRequest
from kafka.protocol.metadata import MetadataRequest

from pipeline.errors import BadSetting
from pipeline.kafka.client import Client
from pipeline.kafka.connection import LIST_OFFSETS, METADATA, Connection, NotReached

_EARLIEST, _LATEST = -2, -1  # in place of a time, when offsets are asked for
_NOT_ALLOWED = 29  # no right to read a topic


class Cluster:
    def __init__(self, client: Client) -> None:
        self.client = client
        self.message_bytes: dict[str, float] = {}  # of a topic's messages, as fetched last
        self._leaders: dict[tuple[str, int], int] = {}
        self._addresses: dict[int, tuple[str, int]] = {}
        self._connections: dict[int, Connection] = {}

    def leader(self, topic: str, partition: int) -> int | None:
        return self._leaders.get((topic, partition))

    def forget_leader(self, topic: str, partition: int) -> None:
        self._leaders.pop((topic, partition), None)

    def answer(self, broker: int) -> Any:
        """Of a broker that was asked."""
        return self._connections[broker].receive()

    def connection(self, broker: int) -> Connection:
        """The one there is, or a new one."""
        if broker in self._connections and not self._connections[broker].usable:
            self.drop(broker)
        if broker not in self._connections:
            self._connections[broker] = Connection(self.client, *self._addresses[broker])
        return self._connections[broker]

    def drop(self, broker: int) -> None:
        if broker in self._connections:
            self._connections.pop(broker).close()

    def close(self) -> None:
        for broker in list(self._connections):
            self.drop(broker)

    def look(self, topics: Iterable[str]) -> None:
        """Ask who leads these topics' partitions; those of the settings are asked, one by one, until one answers."""
        failures = []
        for host, port in self.client.brokers:
            try:
                first = Connection(self.client, host, port)
                try:
                    return self._hear_of(sorted(set(topics)), first)
                finally:
                    first.close()
            except NotReached as error:
                failures.append(str(error))
        raise NotReached("; ".join(failures))

    def extent(self, topic: str, partition: int) -> tuple[int, int]:
        """The first offset that the leader has of a partition, and the one behind its last."""
        broker = self._leaders[topic, partition]
        found = []
        for moment in (_EARLIEST, _LATEST):
            of_partition = ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition(
                partition_index=partition, current_leader_epoch=-1, timestamp=moment
            )
            of_topic = ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=[of_partition])
            isolation = 0  # what is there, committed or not
            request = ListOffsetsRequest[LIST_OFFSETS](replica_id=-1, isolation_level=isolation, topics=[of_topic])
            answer = self.connection(broker).ask(request).topics[0].partitions[0]
            if answer.error_code:
                raise NotReached(
                    f"{topic}/{partition}: its leader does not tell its offsets (error {answer.error_code})"
                )
            found.append(int(answer.offset))
        return found[0], found[1]

    def _hear_of(self, topics: list[str], broker: Connection) -> None:
        asked = [MetadataRequest.MetadataRequestTopic(name=topic) for topic in topics]
        answer = broker.ask(MetadataRequest[METADATA](topics=asked, allow_auto_topic_creation=False))
        self._addresses.update({known.node_id: (known.host, known.port) for known in answer.brokers})
        for topic in answer.topics:
            if topic.error_code == _NOT_ALLOWED:
                raise not_allowed(topic.name, self.client.user)
            for part in topic.partitions:
                if part.leader_id in self._addresses:
                    self._leaders[topic.name, part.partition_index] = part.leader_id
                else:
                    self._leaders.pop((topic.name, part.partition_index), None)


def not_allowed(topic: str, user: str | None) -> BadSetting:
    return BadSetting(
        f"Kafka does not let {user or 'this client'} read topic {topic}. Its principal needs READ and DESCRIBE."
    )


_kept: dict[Client, Cluster] = {}
_keeper = 0


def cluster_of(client: Client) -> Cluster:
    """This process's own: a connection that a process was forked with is its parent's."""
    global _keeper
    if _keeper != os.getpid():
        _kept.clear()
        _keeper = os.getpid()
    if client not in _kept:
        _kept[client] = Cluster(client)
    return _kept[client]
