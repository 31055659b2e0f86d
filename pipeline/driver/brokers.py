"""Kafka's administration: which topics there are, and making one. What librdkafka says goes into our sentences."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from pipeline.errors import BadSetting

_ANSWER_WITHIN = 15.0  # seconds
_CALLBACKS = 0.1  # seconds for what librdkafka has to say


class NoBroker(BadSetting):
    """No broker answers at the address."""


class TopicRefused(BadSetting):
    """A topic cannot be made as it was asked for."""


class Quiet:
    """Settings for a client of librdkafka that says nothing on the terminal and keeps what it has to complain of.

    Left alone it prints a line for every attempt: hundreds in the time a broker is waited for.
    """

    def __init__(self, bootstrap: str, client: Mapping[str, str] | None = None) -> None:
        self.said: dict[str, None] = {}  # what went wrong, each only once
        self.settings: dict[str, Any] = {
            "log_level": 0,
            "error_cb": self._hear,
            **(client or {}),
            "bootstrap.servers": bootstrap,
        }

    def reason(self, error: KafkaException) -> str:
        """Why it failed: the last complaint of one connection, else the error's own word."""
        return next(reversed(self.said), error.args[0].str())

    def _hear(self, error: Any) -> None:
        # `127.0.0.1:1/bootstrap: Connect to ipv4#127.0.0.1:1 failed: Connection refused (after 0ms in state CONNECT)`
        said = re.sub(r"^\S+: | \(after .*\)$", "", error.str())
        if not re.search(r"brokers are down$", said):
            self.said[said] = None


class Brokers:
    """The brokers of a bootstrap address."""

    def __init__(self, bootstrap: str, client: Mapping[str, str] | None = None, within: float = _ANSWER_WITHIN) -> None:
        self.bootstrap, self._within = bootstrap, within
        self._quiet = Quiet(bootstrap, client)
        try:
            self.admin = AdminClient(self._quiet.settings)
        except KafkaException as error:
            raise BadSetting(
                f"Kafka's client refuses its settings: {error.args[0].str()}. Correct [kafka.client] or "
                "kafka.bootstrap. What only Java's client knows belongs in [kafka.client_java], what only this one "
                "knows in [kafka.client_librdkafka]."
            ) from error

    def topics(self) -> dict[str, Any]:
        """What the brokers say of each topic; Kafka's own are left out."""
        try:
            listed = self.admin.list_topics(timeout=self._within).topics
            return {name: topic for name, topic in listed.items() if not name.startswith("__")}
        except KafkaException as error:
            self.admin.poll(_CALLBACKS)
            raise NoBroker(
                f"no Kafka broker answers at kafka.bootstrap = {self.bootstrap} within {self._within:g} s "
                f"({self._quiet.reason(error)}). Start one (`millrace up`), or give the address of one."
            ) from error

    def create(self, topic: str, partitions: int, config: Mapping[str, str] | None = None) -> None:
        """Make a topic, with the brokers' own replication, and return when all of it can be written."""
        if topic in self.topics():
            raise TopicRefused(f"topic {topic} is there already at {self.bootstrap}; it was left as it is.")
        made = self.admin.create_topics([NewTopic(topic, partitions, -1, config=dict(config or {}))])[topic]
        try:
            made.result(self._within)
        except KafkaException as error:
            raise TopicRefused(f"topic {topic} cannot be made at {self.bootstrap}: {error.args[0].str()}.") from error
        deadline = time.monotonic() + self._within
        while not self._is_led(topic, partitions):
            if time.monotonic() > deadline:
                raise TopicRefused(
                    f"topic {topic} was made, but {self.bootstrap} has no leader for all of its {partitions} "
                    f"partitions after {self._within:g} s. Look at the brokers."
                )

    def _is_led(self, topic: str, partitions: int) -> bool:
        known = self.topics().get(topic)
        led = [part for part in known.partitions.values() if part.leader >= 0] if known else []
        return len(led) == partitions
