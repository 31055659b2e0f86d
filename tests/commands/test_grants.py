"""What `millrace grants` prints is enough on the real servers, and not for one thing more."""

from __future__ import annotations

import argparse
import contextlib
import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pymysql
import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from pipeline import cli
from pipeline.config.contracts import Contracts
from pipeline.config.measures import Secret
from pipeline.config.settings import KafkaSettings, MasterData, Settings, WorkerSettings
from pipeline.driver.preflight import check_topics
from pipeline.errors import BadSetting, FeedRefused
from pipeline.java import runtime
from pipeline.kafka.client import client_of
from pipeline.kafka.cluster import Cluster
from pipeline.kafka.ranges import Range
from pipeline.kafka.reader import messages
from pipeline.laptop.stack.stack import Stack, StackInfo, start_on_free_ports
from pipeline.master.open import open_feed, open_master
from pipeline.plan import resolve
from tests.kafka.test_secure import AUTHORITY, PASSWORD, PLAIN, SecureBroker, login

USER = "o'neil"
BEYOND = [
    "INSERT INTO product SELECT * FROM product LIMIT 1",
    "UPDATE product SET product_key = 1",
    "DELETE FROM product",
    "REPLACE INTO store SELECT * FROM store LIMIT 1",
    "TRUNCATE product",
    "DROP TABLE product",
    "CREATE TABLE x (n INT)",
    "ALTER TABLE product ADD x INT",
    "CREATE INDEX x ON product (product_key)",
    "LOCK TABLES product WRITE",
    "SELECT * FROM mysql.user",
    "SELECT * INTO OUTFILE '/tmp/x' FROM product",
    "CREATE USER x",
    "GRANT SELECT ON product TO 'o''neil'@'127.0.0.1'",
    "SET GLOBAL max_connections = 1",
]
DENIED = {1044, 1045, 1142, 1143, 1227, 1410, 1290}  # access, command, column, privilege


def printed(capsys: pytest.CaptureFixture[str], *words: str, **settings: str) -> list[str]:
    assignments = [word for name, value in settings.items() for word in ("--set", f"{name.replace('__', '.')}={value}")]
    capsys.readouterr()
    with contextlib.suppress(SystemExit):
        cli.main(["grants", *words, *assignments])
    return capsys.readouterr().out.splitlines()


@pytest.mark.mysql
@pytest.mark.parametrize(("feed", "history"), [("auto", "off"), ("off", "off"), ("off", "type 2")])
def test_the_databases_account_may_read_its_tables_and_write_nothing(
    stack: Stack, seeded: StackInfo, capsys: pytest.CaptureFixture[str], feed: str, history: str
) -> None:
    given = {"master__user": USER, "master__feed": feed, "dimensions__product__history": history}
    statements = printed(capsys, "mysql", "--account-host", "127.0.0.1", **given)
    reads_log = (feed, history) != ("off", "off")
    assert len(statements) == (4 if reads_log else 3)
    account = "'o''neil'@'127.0.0.1'"
    stack.database.execute(f"DROP USER IF EXISTS {account}", f"CREATE USER {account} IDENTIFIED BY 'known'")
    stack.database.execute(*statements)
    known = {"host": "127.0.0.1", "port": seeded.port, "user": USER, "password": Secret("known")}
    settings = MasterData(**known, feed=feed)  # type: ignore[arg-type]
    contract = Contracts().dimension("product")
    with open_master(settings, contract) as master:
        master.verify(needs_unique_index=True)
        assert len(master.lookup(pa.array([b"P-00000001", b"no such"]))) <= 1
        assert master.statistics()
    followed = open_feed(replace(settings, feed="binlog"), {"product": contract}).follow()
    if reads_log:
        assert next(followed).all_of == {"product"}
        followed.close()
    else:
        with pytest.raises(FeedRefused, match="does not let its log be followed"):
            next(followed)
    transport = stack.database._transport
    own = {"host": "127.0.0.1", "port": seeded.port, "user": USER, "password": "known", "database": "master"}
    for statement in BEYOND:
        connection = pymysql.connect(**own, **transport)
        with connection, connection.cursor() as cursor, pytest.raises(pymysql.MySQLError) as refused:
            cursor.execute(statement)
        assert refused.value.args[0] in DENIED, (statement, refused.value)


class StrictBroker(SecureBroker):
    """Asks its list of rights of all who log in; who comes without a log-in administers it."""

    def _properties(self, data: Path) -> str:
        return super()._properties(data) + runtime.properties({
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        })  # fmt: skip

    def allow(self, line: str) -> None:
        """What `kafka-acls.sh` does with the printed line; the tool itself is not among the embedded broker's jars."""
        tool, *words = shlex.split(line)
        assert tool == "kafka-acls.sh"
        options = argparse.ArgumentParser(allow_abbrev=False)
        options.add_argument("--add", action="store_true", required=True)
        options.add_argument("--operation", action="append", choices=["Read", "Describe", "DescribeConfigs"])
        options.add_argument("--resource-pattern-type", choices=["literal", "prefixed"], default="literal")
        for name in ("--bootstrap-server", "--allow-principal", "--topic"):
            options.add_argument(name, required=True)
        given = options.parse_args(words)
        kind = ResourcePatternType[given.resource_pattern_type.upper()]
        operations = [AclOperation[re.sub("(?<=.)(?=[A-Z])", "_", name).upper()] for name in given.operation]
        wanted = [
            AclBinding(
                ResourceType.TOPIC, given.topic, kind, given.allow_principal, "*", operation, AclPermissionType.ALLOW
            )
            for operation in operations
        ]
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for done in admin.create_acls(wanted).values():
            done.result(30)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StrictBroker]:
    running = StrictBroker(tmp_path_factory.mktemp("strict"), supervised=True)
    start_on_free_ports(running)
    try:
        producer = Producer({"bootstrap.servers": running.bootstrap})
        for topic in ("sales", "shop-de", "salaries"):
            running.create_topic(topic, 1)
            producer.produce(topic, b"{}")
        assert producer.flush(30) == 0
        yield running
    finally:
        running.stop()


def as_job(broker: StrictBroker, **which: object) -> KafkaSettings:
    librdkafka = {
        "security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "shop", "sasl.password": PASSWORD,
        "ssl.ca.pem": AUTHORITY.pem,
    }  # fmt: skip
    java = login("PLAIN", PLAIN, "shop")
    return KafkaSettings(broker.at("sasl"), **which, client_java=java, client_librdkafka=librdkafka)  # type: ignore[arg-type]


def read(kafka: KafkaSettings, topic: str) -> int:
    """The messages of its one offset, as a worker reads them."""
    cluster = Cluster(client_of(kafka.bootstrap, kafka.java))
    try:
        return sum(len(some) for some in messages([Range(topic, 0, 0, 1)], cluster, WorkerSettings(), patience=5))
    finally:
        cluster.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("setting", "which", "topic"),
    [("topics", {"topics": ("sales",)}, "sales"), ("topic_pattern", {"topic_pattern": "shop-.*"}, "shop-de")],
)
def test_the_brokers_principal_may_read_its_topics_and_write_nothing(
    broker: StrictBroker, capsys: pytest.CaptureFixture[str], setting: str, which: dict[str, object], topic: str
) -> None:
    kafka = as_job(broker, **which)
    value = which["topics"][0] if "topics" in which else which["topic_pattern"]  # type: ignore[index]
    with pytest.raises(BadSetting, match=f"let shop read topic {topic}"):
        read(kafka, topic)
    [line] = printed(capsys, "kafka", "--principal", "User:shop", **{f"kafka.{setting}": value})
    broker.allow(line)
    check_topics(resolve(Settings(kafka=kafka)))
    assert read(kafka, topic) == 1
    with pytest.raises(BadSetting, match="let shop read topic salaries"):
        read(kafka, "salaries")
    own = {"bootstrap.servers": kafka.bootstrap, **kafka.librdkafka}
    refusals: list[KafkaError] = []
    producer = Producer(own | {"message.timeout.ms": 5_000})
    producer.produce(topic, b"forged", on_delivery=lambda error, _: refusals.append(error))
    producer.flush(30)
    admin = AdminClient(own)
    for asked in (admin.create_topics([NewTopic("mine", 1, 1)]), admin.delete_topics([topic])):
        [answer] = asked.values()
        with pytest.raises(KafkaException) as refused:
            answer.result(30)
        refusals.append(refused.value.args[0])
    denied = {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED}
    assert len(refusals) == 3
    assert {refusal.code() for refusal in refusals} <= denied, refusals


def test_without_a_name_the_brokers_administrator_is_asked_for_one(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["grants", "kafka", "--set", "kafka.topics=sales"])
    assert ended.value.code == 2
    assert "--principal User:shop" in capsys.readouterr().err
    given = {"kafka.client.sasl.username": "shop", "kafka.topics": "sales,it's"}
    lines = printed(capsys, "kafka", **given)
    assert [shlex.split(line)[-1] for line in lines] == ["sales", "it's"]
    assert all("User:shop" in line for line in lines)
    assert "Write" not in "".join(lines)
    assert "Group" not in "".join(lines)
