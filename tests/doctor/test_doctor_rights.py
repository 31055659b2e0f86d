"""A real broker that shows a topic to everybody and lets nobody read it: `doctor` says so, and `run` refuses it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from pipeline.config.settings import KafkaSettings, Settings
from pipeline.doctor import kafka
from pipeline.doctor.findings import Level, Patient
from pipeline.driver.preflight import check_topics
from pipeline.errors import BadSetting
from pipeline.java import runtime
from pipeline.laptop.stack.kafka import KafkaBroker
from pipeline.laptop.stack.stack import start_on_free_ports
from pipeline.plan import resolve

pytestmark = pytest.mark.slow


class StrictBroker(KafkaBroker):
    """A broker that asks its list of rights."""

    def _properties(self, data: object) -> str:
        return super()._properties(data) + runtime.properties({
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "true",
        })  # fmt: skip


@pytest.fixture
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StrictBroker]:
    running = StrictBroker(tmp_path_factory.mktemp("strict"), supervised=True)
    start_on_free_ports(running)
    try:
        running.create_topic("sales", 1)
        sight = AclBinding(
            ResourceType.TOPIC, "sales", ResourcePatternType.LITERAL, "User:*", "*",
            AclOperation.DESCRIBE, AclPermissionType.ALLOW,
        )  # fmt: skip
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        for done in admin.create_acls([sight]).values():
            done.result(30)
        yield running
    finally:
        running.stop()


def test_a_topic_that_may_be_seen_and_not_read_is_refused(broker: StrictBroker) -> None:
    settings = Settings(kafka=KafkaSettings(bootstrap=broker.bootstrap))
    patient = Patient(settings, resolve(settings), 15.0)
    said = r"Kafka does not let this client read topic sales\. Its principal needs READ and DESCRIBE"
    with pytest.raises(BadSetting, match=said):
        check_topics(patient.plan)
    with pytest.raises(BadSetting, match=said):
        list(kafka.topics(patient))
    (found,) = kafka.retention(patient)
    assert found.level is Level.NOT_CHECKED
    assert "Kafka does not tell how long it keeps messages" in found.what
