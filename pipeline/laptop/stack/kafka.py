"""A real Kafka broker of one node: KRaft, loopback, everything below one folder."""

from __future__ import annotations

import os
import shlex
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from pipeline.java import jars, runtime
from pipeline.laptop.stack.ports import LOOPBACK
from pipeline.laptop.stack.process import Server, ServerFailed

MAX_MESSAGE_BYTES = 16 << 20
_HEAP = "-Xmx512m"
_FOR_SECONDS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")  # the second compiler never pays back in so short a life
# The broker logs through slf4j and runs on Scala; PySpark brings both.
_SHARED_JARS = ("scala-library-*", "slf4j-api-*", "log4j-api-2*", "log4j-core-*", "log4j-slf4j2-impl-*")

_LOGGING = """\
rootLogger.level = INFO
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{ISO8601} %-5p %c{1} %m%n
"""


class KafkaBroker(Server):
    """The broker, and the few things one asks of its administration."""

    name: ClassVar[str] = "kafka"
    port_names: ClassVar[tuple[str, ...]] = ("port", "controller")

    @property
    def bootstrap(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    @cached_property
    def cluster(self) -> str:
        """What its data folder is made for, where there is none yet."""
        return urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")

    def prepare(self) -> None:
        if "," in str(self.folder):
            raise ServerFailed(f"kafka: takes {self.folder} for a list, because of the comma. Choose another --folder.")
        (self.folder / "log4j2.properties").write_text(_LOGGING)
        (self.folder / "server.properties").write_text(self._properties(self.data))
        if self.data.exists():
            return
        with self.unfinished_data() as unfinished:
            properties = unfinished.with_name("server.properties")
            properties.write_text(self._properties(unfinished))
            options = [f"--cluster-id={self.cluster}", f"--config={properties}"]
            format = self._java(*_FOR_SECONDS, "kafka.tools.StorageTool", "format", *options)
            self.run("format its data folder", format)

    def command(self) -> list[str]:
        # As Kafka's own start script takes it.
        options = shlex.split(os.environ.get("KAFKA_JVM_PERFORMANCE_OPTS", ""))
        return self._java(*options, "kafka.Kafka", str(self.folder / "server.properties"))

    def environment(self) -> dict[str, str]:
        return runtime.environment()

    def answers(self) -> bool:
        try:
            return bool(self._admin().list_topics(timeout=1).brokers)
        except KafkaException:
            return False

    def create_topic(
        self, name: str, partitions: int = 4, config: Mapping[str, str] | None = None, copies: int = 1
    ) -> None:
        """Create a topic and return when it can be written."""
        topic = NewTopic(name, partitions, replication_factor=copies, config=dict(config or {}))
        admin = self._admin()
        admin.create_topics([topic])[name].result(30)
        self._await_partitions(name, partitions)

    def add_partitions(self, name: str, partitions: int) -> None:
        """Bring a topic to this many partitions and return when the new ones can be written."""
        admin = self._admin()
        admin.create_partitions([NewPartitions(name, partitions)])[name].result(30)
        self._await_partitions(name, partitions)

    def delete_topic(self, name: str) -> None:
        admin = self._admin()
        admin.delete_topics([name])[name].result(30)

    def topics(self) -> dict[str, int]:
        """The partitions of each topic, Kafka's own left out."""
        listed = self._admin().list_topics(timeout=10).topics
        return {name: len(topic.partitions) for name, topic in listed.items() if not name.startswith("__")}

    def _await_partitions(self, name: str, partitions: int) -> None:
        def all_led() -> bool:
            topic = self._admin().list_topics(topic=name, timeout=10).topics[name]
            led = [p for p in topic.partitions.values() if p.leader >= 0]
            return topic.error is None and len(led) == partitions

        self.await_until(all_led, 30, f"topic {name} has no {partitions} partitions with a leader,")

    def _admin(self) -> Any:
        """A client; its futures are fulfilled only as long as it is referenced."""
        # Its log would tell the terminal of every attempt before the broker is up.
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0, "socket.timeout.ms": 10_000})

    @cached_property
    def _classpath(self) -> str:
        shared = [jar for pattern in _SHARED_JARS for jar in jars.SHIPPED_BY_PYSPARK.glob(f"{pattern}.jar")]
        return ":".join(str(jar) for jar in [*jars.fetch("kafka"), *sorted(shared)])

    def _java(self, *arguments: str) -> list[str]:
        # As an address, in which a blank or a percent sign of the path is only itself.
        logging = f"-Dlog4j2.configurationFile={(self.folder / 'log4j2.properties').as_uri()}"
        options = [_HEAP, "-Djava.net.preferIPv4Stack=true", logging]
        return [str(runtime.java()), *options, "-cp", self._classpath, *arguments]

    def _properties(self, data: Path) -> str:
        properties = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@{LOOPBACK}:{self.ports['controller']}",
            "listeners": f"PLAINTEXT://{LOOPBACK}:{self.port},CONTROLLER://{LOOPBACK}:{self.ports['controller']}",
            "advertised.listeners": f"PLAINTEXT://{LOOPBACK}:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": str(data),
            "num.partitions": 4,
            "auto.create.topics.enable": "false",
            "message.max.bytes": MAX_MESSAGE_BYTES,
            "replica.fetch.max.bytes": MAX_MESSAGE_BYTES,
            # One node: what Kafka keeps about itself cannot be replicated.
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 4,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "transaction.state.log.num.partitions": 4,
            "share.coordinator.state.topic.replication.factor": 1,
            "share.coordinator.state.topic.min.isr": 1,
            # After a kill the controller takes the broker back only when its old session has run out.
            "broker.heartbeat.interval.ms": 500,
            "broker.session.timeout.ms": 4_000,
            "group.initial.rebalance.delay.ms": 0,
        }
        return runtime.properties(properties)
