"""Brokers that want encryption, certificates and log-ins: what Java is given is enough for this reader too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from pipeline.config.measures import Place
from pipeline.config.settings import JobSettings, KafkaSettings, Settings, WorkerSettings
from pipeline.driver.session import open_session
from pipeline.errors import BadSetting
from pipeline.java import runtime
from pipeline.kafka import cluster as clusters
from pipeline.kafka.client import client_of
from pipeline.kafka.cluster import Cluster
from pipeline.kafka.connection import Connection
from pipeline.kafka.ranges import Range
from pipeline.kafka.reader import messages
from pipeline.laptop.stack.kafka import KafkaBroker
from pipeline.laptop.stack.ports import LOOPBACK
from pipeline.laptop.stack.stack import start_on_free_ports
from tests.kit.certificates import Authority
from tests.kit.reading import Stream
from tests.kit.running import wait_until

pytestmark = pytest.mark.slow

AUTHORITY, STRANGER = Authority("ours"), Authority("stranger")
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
USER, PASSWORD = "a,shop=1", 'p;w "1"'
JAAS_PASSWORD = PASSWORD.replace('"', '\\"')
TRUSTED = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": AUTHORITY.pem}


class SecureBroker(KafkaBroker):
    """A broker that also listens with encryption, with certificates of its clients, and with log-ins."""

    port_names: ClassVar[tuple[str, ...]] = ("port", "controller", "ssl", "sasl")

    def _properties(self, data: Path) -> str:
        store, trusted = self.folder / "store.pem", self.folder / "trusted.pem"
        store.write_text("".join(AUTHORITY.signs()))
        trusted.write_text(AUTHORITY.pem)
        more = {f"{way}://{LOOPBACK}:{self.ports[name]}" for way, name in (("SSL", "ssl"), ("SASL_SSL", "sasl"))}
        lines = super()._properties(data).splitlines()
        lines = [",".join([line, *more]) if "listeners=" in line.replace(" ", "") else line for line in lines]
        return "\n".join([*lines, runtime.properties({
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(store),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(trusted),
            "listener.name.ssl.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "listener.name.sasl_ssl.plain.sasl.jaas.config": f'{PLAIN} required user_shop="{JAAS_PASSWORD}";',
            "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config": f"{SCRAM} required;",
            "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": f"{SCRAM} required;",
            "listener.name.sasl_ssl.plain.connections.max.reauth.ms": 1_500,
        })])  # fmt: skip

    def at(self, way: str) -> str:
        return f"{LOOPBACK}:{self.ports[way]}"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    running = SecureBroker(tmp_path_factory.mktemp("secure"), supervised=True)
    start_on_free_ports(running)
    try:
        running.create_topic("sales", 1)
        producer = Producer({"bootstrap.servers": running.bootstrap})
        for number in range(10):
            producer.produce("sales", f"{number}".encode())
        assert producer.flush(30) == 0
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            wanted = UserScramCredentialUpsertion(USER, ScramCredentialInfo(mechanism, 4096), PASSWORD.encode())
            admin.alter_user_scram_credentials([wanted])[USER].result(30)
        yield running
    finally:
        running.stop()


def read(bootstrap: str, java: dict[str, str]) -> list[bytes]:
    cluster = Cluster(client_of(bootstrap, java))
    try:
        found = messages([Range("sales", 0, 0, 10)], cluster, WorkerSettings(), patience=5)
        return [value for some in found for value in some.column("value").to_pylist()]
    finally:
        cluster.close()


EVERYTHING = [f"{number}".encode() for number in range(10)]


def login(mechanism: str, module: str, user: str, password: str = JAAS_PASSWORD) -> dict[str, str]:
    jaas = f'{module} required username="{user}" password="{password}";'
    return TRUSTED | {"security.protocol": "SASL_SSL", "sasl.mechanism": mechanism, "sasl.jaas.config": jaas}


@pytest.mark.parametrize(
    ("mechanism", "module", "user"),
    [("PLAIN", PLAIN, "shop"), ("SCRAM-SHA-256", SCRAM, USER), ("SCRAM-SHA-512", SCRAM, USER)],
)
def test_a_log_in_is_enough_and_a_wrong_one_is_told_at_once(
    broker: SecureBroker, mechanism: str, module: str, user: str
) -> None:
    assert read(broker.at("sasl"), login(mechanism, module, user)) == EVERYTHING
    with pytest.raises(BadSetting, match=rf"does not let '{user}' in by {mechanism}: .*[Aa]uthentication failed"):
        read(broker.at("sasl"), login(mechanism, module, user, "wrong"))


@pytest.mark.parametrize("way", ["sasl", "ssl"])
@pytest.mark.parametrize("reader", ["spark", "direct"])
def test_what_is_enough_for_sparks_source_is_enough_for_the_workers(
    broker: SecureBroker, tmp_path: Path, reader: str, way: str
) -> None:
    """A log-in by SCRAM, and a certificate of the client's own."""
    (tmp_path / "authority.pem").write_text(AUTHORITY.pem)
    (tmp_path / "own.pem").write_text("".join(AUTHORITY.signs()))
    by_certificate = {
        "security.protocol": "SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(tmp_path / "own.pem"),
        "ssl.truststore.type": "PEM",
    }
    given = by_certificate if way == "ssl" else login("SCRAM-SHA-512", SCRAM, USER)
    given |= {"ssl.truststore.location": str(tmp_path / "authority.pem"), "isolation.level": "read_committed"}
    given.pop("ssl.truststore.certificates", None)
    kafka = KafkaSettings(broker.at(way), ("sales",), reader=reader, client_java=given)
    job = JobSettings(trigger="available-now", checkpoint=Place(str(tmp_path / "checkpoint")))
    session = open_session(Settings())
    try:
        read_by_job = Stream(session, tmp_path, Settings(job=job, kafka=kafka)).read()
    finally:
        session.stop()
    assert [value for *_, value in read_by_job] == EVERYTHING


def test_clients_certificates_are_shown_as_a_file_and_as_they_are(broker: SecureBroker, tmp_path: Path) -> None:
    key, chain = AUTHORITY.signs()
    (tmp_path / "own.pem").write_text(key + chain)
    (tmp_path / "authority.pem").write_text(AUTHORITY.pem)
    given = {"security.protocol": "SSL", "ssl.keystore.type": "PEM", "ssl.truststore.type": "PEM"}
    as_files = {"ssl.keystore.location": "own.pem", "ssl.truststore.location": "authority.pem"}
    as_files = {name: str(tmp_path / file) for name, file in as_files.items()}
    as_it_is = {"ssl.keystore.key": key, "ssl.keystore.certificate.chain": chain} | TRUSTED
    assert read(broker.at("ssl"), given | as_files) == read(broker.at("ssl"), given | as_it_is) == EVERYTHING


def test_a_broker_that_another_authority_signed_is_not_spoken_to(broker: SecureBroker) -> None:
    with pytest.raises(BadSetting, match=r"certificate is not trusted .*ssl\.truststore\.location"):
        read(broker.at("sasl"), login("PLAIN", PLAIN, "shop") | {"ssl.truststore.certificates": STRANGER.pem})


def test_a_broker_that_wants_encryption_is_recognized_without(broker: SecureBroker) -> None:
    with pytest.raises(BadSetting, match=r"If it wants encryption, set security\.protocol"):
        read(broker.at("ssl"), {})


def test_certificates_that_are_not_there_are_told(broker: SecureBroker) -> None:
    nowhere = {"security.protocol": "SSL", "ssl.truststore.type": "PEM", "ssl.truststore.location": "/nowhere.pem"}
    with pytest.raises(BadSetting, match=r"certificates in \[kafka.client\] cannot be used: .*No such file"):
        read(broker.at("ssl"), nowhere)


def test_a_log_in_that_only_counts_for_a_while_is_made_anew_before_it_ends(
    broker: SecureBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Connection] = []

    class Counted(Connection):
        def __init__(self, *arguments: object) -> None:
            super().__init__(*arguments)  # type: ignore[arg-type]
            made.append(self)

    monkeypatch.setattr(clusters, "Connection", Counted)
    cluster = Cluster(client_of(broker.at("sasl"), login("PLAIN", PLAIN, "shop")))
    for connections in (2, 3):
        found = messages([Range("sales", 0, 0, 10)], cluster, WorkerSettings(), patience=0)
        assert sum(map(len, found)) == 10
        assert len(made) == connections
        wait_until(lambda: not made[-1].usable, "the log-in counts no longer", 5)
    cluster.close()
