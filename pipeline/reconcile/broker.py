"""What lies in Kafka, seen through kafka-python: another client than the generator's and another than the job's."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError

from pipeline.config.settings import KafkaSettings
from pipeline.reconcile.tables import NotReconcilable

_ANSWER_MS = 15_000
_LOOK_MS = 100
_EARLIEST, _LATEST = -2, -1  # in Spark's JSON of offsets
# librdkafka's and Java's names that kafka-python calls something else than the same with underscores.
_NAMES = {
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "sasl.mechanisms": "sasl_mechanism",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
}


class Place(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


class Extent(NamedTuple):
    """The offsets of a partition that must be in the warehouse: from `first` up to, and without, `end`."""

    first: int
    end: int


class Message(NamedTuple):
    offset: int
    timestamp: int  # milliseconds since 1970
    value: bytes | None


class Broker:
    def __init__(self, kafka: KafkaSettings) -> None:
        self._settings = kafka
        try:
            self._consumer = KafkaConsumer(
                bootstrap_servers=kafka.bootstrap.split(","),
                enable_auto_commit=False,
                auto_offset_reset="none",
                check_crcs=False,  # slow in Python, and what is read is compared byte by byte anyway
                bootstrap_timeout_ms=_ANSWER_MS,
                **_client(kafka.librdkafka),
            )
        except KafkaError as error:
            raise NotReconcilable(f"no Kafka broker answers at {kafka.bootstrap}: {error}.") from error

    def close(self) -> None:
        self._consumer.close()

    def extents(self, first_found: Mapping[Place, int]) -> dict[Place, Extent]:
        """The offsets the job has to have read by now, as the broker itself tells them.

        Where the settings leave open what was the latest offset when the job began, the first offset found is taken.
        """
        places = [TopicPartition(t, p) for t in self._topics() for p in sorted(self._partitions(t))]
        first, end = self._consumer.beginning_offsets(places), self._consumer.end_offsets(places)
        extents = {}
        for partition in places:
            place = Place(partition.topic, partition.partition)
            began = self._began(place, first[partition])
            if began is None:
                began = min(first_found.get(place, end[partition]), end[partition])
            extents[place] = Extent(began, end[partition])
        return extents

    def read(self, place: Place, first: int, count: int) -> Iterator[Message]:
        """Up to `count` messages from the offset `first` on; fewer where the partition ends."""
        if place.partition not in self._partitions(place.topic):
            return  # its end would be asked for, again and again for half a minute
        partition = TopicPartition(*place)
        end = self._consumer.end_offsets([partition])[partition]
        self._consumer.assign([partition])
        self._consumer.seek(partition, first)
        deadline = time.monotonic() + _ANSWER_MS / 1000
        while count and self._consumer.position(partition) < end:
            # Offsets without a message bring no answer; only the consumer's position shows that it passed them.
            records = self._consumer.poll(timeout_ms=_LOOK_MS, max_records=count).get(partition, [])
            for record in records:
                yield Message(record.offset, record.timestamp, record.value)
            count -= len(records)
            if records:
                deadline = time.monotonic() + _ANSWER_MS / 1000
            elif time.monotonic() > deadline and self._consumer.position(partition) < end:
                raise NotReconcilable(
                    f"{place}: the broker gave no message from offset {self._consumer.position(partition)} on within "
                    f"{_ANSWER_MS // 1000} s, though it has messages up to {end}. See its log."
                )

    def _topics(self) -> list[str]:
        known = self._consumer.topics()
        if self._settings.topic_pattern:
            return sorted(topic for topic in known if re.fullmatch(self._settings.topic_pattern, topic))
        if missing := sorted(set(self._settings.topics) - known):
            raise NotReconcilable(
                f"kafka.topics names {', '.join(missing)}, which {self._settings.bootstrap} does not have."
            )
        return sorted(self._settings.topics)

    def _partitions(self, topic: str) -> set[int]:
        return self._consumer.partitions_for_topic(topic) or set()

    def _began(self, place: Place, first: int) -> int | None:
        """The offset the job began at; None for the latest there was at that time."""
        starting = self._settings.starting_offsets
        if starting == "earliest":
            return first
        if starting == "latest":
            return None
        chosen = json.loads(starting).get(place.topic, {}).get(str(place.partition), _EARLIEST)
        # A partition the JSON does not name did not exist then, and is read from its beginning.
        return {_EARLIEST: first, _LATEST: None}.get(chosen, chosen)


def _client(options: dict[str, str]) -> dict[str, Any]:
    """The settings' client options as far as kafka-python has them: addresses, TLS, SASL, time limits."""
    known = KafkaConsumer.DEFAULT_CONFIG
    translated = {_NAMES.get(name, name.replace(".", "_")): value for name, value in options.items()}
    return {
        name: int(value) if isinstance(known[name], int) and value.isdigit() else value
        for name, value in translated.items()
        if name in known and not name.startswith(("auto_", "enable_", "group_"))
    }
