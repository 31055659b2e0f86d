"""The brokers: whether the topics are there and may be read, how long they keep a message, who may listen."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import ConfigResource, OffsetSpec, ResourceType  # type: ignore[attr-defined]

from pipeline.doctor.findings import Check, Finding, Patient, is_here, not_checked, ok, warning
from pipeline.driver.brokers import Brokers
from pipeline.driver.preflight import check_topics

_DAY = 86_400  # seconds: a night's outage should not outlast a topic
_SKEW = 2.0  # seconds
TOPICS = "kafka topics"


def checks(patient: Patient) -> list[Check]:
    return [
        Check("kafka encryption", encryption),
        Check(TOPICS, topics),
        Check("kafka retention", retention, (TOPICS,)),
        Check("kafka clock", clock, (TOPICS,)),
    ]


def encryption(patient: Patient) -> Iterator[Finding]:
    """Both clients: librdkafka looks after topics, and the workers or Spark read them."""
    kafka = patient.settings.kafka
    hosts = [address.rpartition(":")[0] for address in kafka.bootstrap.split(",")]
    plain = {
        name
        for name, client in (("kafka.client_java", kafka.java), ("kafka.client_librdkafka", kafka.librdkafka))
        if not client.get("security.protocol", "PLAINTEXT").upper().endswith("SSL")
    }
    if not plain:
        yield ok("sales are read through TLS")
    elif all(map(is_here, hosts)):
        yield ok(f"sales are read in plain, which stays on this machine ({kafka.bootstrap})")
    else:
        yield warning(
            f"sales are read in plain from {kafka.bootstrap}: who is on the way can read and change them",
            "Set security.protocol = SSL or SASL_SSL in [kafka.client], and the broker's address for it.",
        )


def topics(patient: Patient) -> Iterator[Finding]:
    """The same questions as `run` asks, then what the brokers say of each topic."""
    check_topics(patient.plan, patient.within)
    found = _topics(patient)
    if not found:
        yield warning(
            f"no topic is called as kafka.topic_pattern = {patient.settings.kafka.topic_pattern} says; nothing is read",
            "Correct the pattern, or wait for the first topic.",
        )
    for name, topic in sorted(found.items()):
        lost = [str(number) for number, part in sorted(topic.partitions.items()) if part.leader < 0]
        if lost:
            yield warning(
                f"{name}: partitions {', '.join(lost)} have no leader; what is in them cannot be read meanwhile",
                "Look at the brokers: one of them is down.",
            )
        else:
            yield ok(f"{name} has {len(topic.partitions)} partitions, each with a leader, and may be read")


def retention(patient: Patient) -> Iterator[Finding]:
    """How long an outage of the job may last."""
    admin = _brokers(patient).admin
    wanted = [ConfigResource(ResourceType.TOPIC, name) for name in sorted(_topics(patient))]
    for resource, asked in admin.describe_configs(wanted, request_timeout=patient.within).items() if wanted else ():
        try:
            kept = {name: entry.value for name, entry in asked.result(patient.within).items()}
        except KafkaException as refused:
            yield not_checked(
                f"{resource.name}: Kafka does not tell how long it keeps messages ({refused.args[0].str()})",
                "To have it checked, allow this account to describe the topic's configuration. The job does without.",
            )
            continue
        yield from _kept(resource.name, kept)


def _kept(topic: str, kept: dict[str, str]) -> Iterator[Finding]:
    seconds, most, policy = int(kept["retention.ms"]) / 1000, int(kept["retention.bytes"]), kept["cleanup.policy"]
    remedy = "Raise it above the longest outage that you expect."
    healthy = True
    if "compact" in policy:
        healthy = False
        yield warning(
            f"{topic} is compacted (cleanup.policy = {policy}): Kafka drops a message when a newer one has its key",
            "Set cleanup.policy = delete, unless a sale may be replaced before it is read.",
        )
    if "delete" in policy and 0 <= seconds < _DAY:
        healthy = False
        yield warning(
            f"{topic} keeps messages for {seconds / 3600:.3g} hours (retention.ms); "
            "those of a longer outage are lost before they are read",
            remedy,
        )
    if "delete" in policy and most >= 0:
        healthy = False
        yield warning(
            f"{topic} keeps {most:,} bytes a partition (retention.bytes), for how long depends on how many sales come",
            remedy,
        )
    if healthy:
        yield ok(f"{topic} keeps messages {f'for {seconds / _DAY:.3g} days' if seconds >= 0 else 'for ever'}")


def clock(patient: Patient) -> Iterator[Finding]:
    """Kafka tells no time of its own: a message from the future is what gives a clock away."""
    newest = OffsetSpec.max_timestamp()  # type: ignore[no-untyped-call]
    brokers = _brokers(patient)  # its futures are fulfilled only as long as it is referenced
    found = _topics(patient)
    asked = {TopicPartition(name, part): newest for name, topic in found.items() for part in topic.partitions}
    told = brokers.admin.list_offsets(asked, request_timeout=patient.within) if asked else {}
    ahead = [(each.result(patient.within).timestamp / 1000 - time.time(), at) for at, each in told.items()]
    seconds, at = max(ahead, key=lambda each: each[0], default=(0.0, None))
    if at is not None and seconds > _SKEW:
        yield warning(
            f"the newest message of {at.topic}/{at.partition} was sent {seconds:,.0f} s from now: the sender's clock "
            "is ahead, or this machine's behind; how fresh the facts are is told wrongly",
            "Let both follow a time server.",
        )
    else:
        yield ok("no message was sent later than now")


def _brokers(patient: Patient) -> Brokers:
    kafka = patient.settings.kafka
    return Brokers(kafka.bootstrap, kafka.librdkafka, patient.within)


def _topics(patient: Patient) -> dict[str, Any]:
    kafka = patient.settings.kafka
    return {name: topic for name, topic in _brokers(patient).topics().items() if kafka.may_read(name)}
