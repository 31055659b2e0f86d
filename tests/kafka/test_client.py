"""Java's names for how to connect, translated; and what cannot be followed is refused by its name."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest

from pipeline.config.settings import KafkaSettings, Settings
from pipeline.driver import preflight
from pipeline.errors import BadSetting
from pipeline.kafka.client import Login, client_of

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


def test_without_settings_it_is_a_plain_connection_that_reads_all() -> None:
    client = client_of("one:9092, [::1]:9093,SASL_SSL://two:1", {})
    assert client.brokers == (("one", 9092), ("::1", 9093), ("two", 1))
    assert (client.tls, client.login, client.read_committed) == (None, None, False)


@pytest.mark.parametrize("bootstrap", ["", " , ", "kafka", "kafka:", "kafka:x", "a:b:1"])
def test_what_is_no_address_is_refused(bootstrap: str) -> None:
    with pytest.raises(BadSetting, match=r"kafka\.bootstrap.*host:port"):
        client_of(bootstrap, {})


@pytest.mark.parametrize(
    ("mechanism", "jaas", "user", "password"),
    [
        ("PLAIN", f'{PLAIN} required username="shop" password="p;w=\\"1\\"";', "shop", 'p;w="1"'),
        ("SCRAM-SHA-512", f"{SCRAM}  required\n username='a b'\n password=secret ;\n", "a b", "secret"),
        ("SCRAM-SHA-256", f'{SCRAM} required password="x" username="y";', "y", "x"),
    ],
)
def test_a_login_is_read_out_of_javas_form(mechanism: str, jaas: str, user: str, password: str) -> None:
    given = {"security.protocol": "SASL_SSL", "sasl.mechanism": mechanism, "sasl.jaas.config": jaas}
    client = client_of("kafka:1", given)
    assert client.login == Login(mechanism, user, password)
    assert password not in repr(client)
    assert client.tls is not None
    assert client.tls.check_host


def test_certificates_in_pem_are_taken_as_files_and_as_they_are() -> None:
    given = {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "/authority.pem",
        "ssl.keystore.type": "pem",
        "ssl.keystore.key": "KEY",
        "ssl.keystore.certificate.chain": "CHAIN",
        "ssl.key.password": "hush",
        "ssl.endpoint.identification.algorithm": "",
        "ssl.enabled.protocols": "TLSv1.3",
    }
    tls = client_of("kafka:1", given).tls
    assert tls is not None
    assert (tls.trusted_file, tls.own, tls.own_password) == ("/authority.pem", "KEY\nCHAIN", "hush")
    assert (tls.check_host, tls.oldest) == (False, "TLSv1.3")
    assert "hush" not in repr(tls)


SSL, SASL = {"security.protocol": "SSL"}, {"security.protocol": "SASL_SSL"}


def login(mechanism: str, jaas: str) -> dict[str, str]:
    return SASL | {"sasl.mechanism": mechanism, "sasl.jaas.config": jaas}


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"security.protocol": "QUIC"}, "security.protocol"),
        ({"isolation.level": "read_all"}, "isolation.level"),
        (SASL, "sasl.mechanism"),  # Java's own default is Kerberos
        (SASL | {"sasl.mechanism": "OAUTHBEARER"}, "sasl.mechanism"),
        (SASL | {"sasl.mechanism": "PLAIN"}, "sasl.jaas.config"),
        (login("PLAIN", f'{SCRAM} required username="a" password="b";'), "sasl.jaas.config"),
        (login("PLAIN", f'{PLAIN} required username="a";'), "sasl.jaas.config"),
        (login("SCRAM-SHA-256", f'{SCRAM} required username="a" password="b" tokenauth="true";'), "sasl.jaas.config"),
        (SSL | {"ssl.truststore.location": "/a.jks"}, "ssl.truststore.type"),
        (SSL | {"ssl.keystore.type": "PKCS12", "ssl.keystore.location": "/a.p12"}, "ssl.keystore.type"),
        (SSL | {"ssl.enabled.protocols": "TLSv1.1,TLSv1.2"}, "ssl.enabled.protocols"),
        (SSL | {"ssl.protocol": "SSLv3"}, "ssl.protocol"),
        (SSL | {"ssl.endpoint.identification.algorithm": "dns"}, "ssl.endpoint.identification.algorithm"),
        ({"sasl.client.callback.handler.class": "com.example.Handler"}, "sasl.client.callback.handler.class"),
        ({"ssl.cipher.suites": "TLS_AES_128_GCM_SHA256"}, "ssl.cipher.suites"),
        ({"ssl.truststore.password": "x"}, "ssl.truststore.password"),
        ({"interceptor.classes": "com.example.Spy"}, "interceptor.classes"),
    ],
)  # fmt: skip
def test_what_cannot_be_followed_is_refused_by_its_name_with_the_way_out(given: dict[str, str], name: str) -> None:
    with pytest.raises(BadSetting, match=rf'{re.escape(name)} cannot be followed.*kafka\.reader = "spark"'):
        client_of("kafka:1", given)


def test_what_only_tunes_javas_client_or_librdkafka_is_let_be() -> None:
    given = {
        "fetch.max.wait.ms": "500", "metadata.max.age.ms": "1000", "max.partition.fetch.bytes": "1", "group.id": "g",
        "request.timeout.ms": "1", "topic.metadata.refresh.interval.ms": "1", "ssl.ca.location": "/ca.pem",
    }  # fmt: skip
    assert client_of("kafka:1", given) == client_of("kafka:1", {})


def test_a_job_is_refused_before_its_first_batch() -> None:
    plan = SimpleNamespace(settings=Settings(kafka=KafkaSettings(reader="direct", client={"ssl.cipher.suites": "x"})))
    with pytest.raises(BadSetting, match=r"ssl\.cipher\.suites"):
        preflight.check_topics(plan)
