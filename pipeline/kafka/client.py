"""How to reach the brokers: Java's names for it, as Spark's source is given them, in the words of this reader.

What says who may connect and what is read is translated, or refused by name. What only tunes Java's client is let be.
"""

from __future__ import annotations

import re
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field

from pipeline.errors import BadSetting

_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_LOGIN = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_USED = {
    "security.protocol", "sasl.mechanism", "sasl.jaas.config", "isolation.level", "client.id", "check.crcs",
    "ssl.truststore.type", "ssl.truststore.location", "ssl.truststore.certificates",
    "ssl.keystore.type", "ssl.keystore.location", "ssl.keystore.certificate.chain", "ssl.keystore.key",
    "ssl.key.password", "ssl.endpoint.identification.algorithm", "ssl.protocol", "ssl.enabled.protocols",
}  # fmt: skip
# Sizes, times, habits and groups of Java's client; and what librdkafka alone knows, which Java passes over too.
_LET_BE = re.compile(
    r"fetch\..*|max\.partition\.fetch\.bytes|max\.poll\..*|(send|receive)\.buffer\.bytes|metadata\..*|metrics?\..*"
    r"|request\.timeout\.ms|default\.api\.timeout\.ms|session\.timeout\.ms|heartbeat\.interval\.ms|group\..*"
    r"|reconnect\.backoff\..*|retry\.backoff\..*|retries|connections\.max\.idle\.ms|socket\..*|client\.dns\.lookup"
    r"|client\.rack|partition\.assignment\.strategy|enable\.metrics\.push|allow\.auto\.create\.topics|auto\..*"
    r"|exclude\.internal\.topics|topic\.metadata\..*|log\..*|broker\.address\.ttl|statistics\.interval\.ms"
    r"|sasl\.login\.(?!callback|class).*|ssl\.secure\.random\.implementation"
    r"|sasl\.(mechanisms|username|password)|ssl\.(ca|certificate|crl)\..*|ssl\.key\.location|enable\.ssl\..*"
)


@dataclass(frozen=True)
class Tls:
    """How a connection is encrypted. Certificates are a PEM file, or PEM itself."""

    check_host: bool
    oldest: str
    trusted_file: str
    trusted: str
    own_file: str  # key and certificates
    own: str
    own_password: str = field(repr=False)


@dataclass(frozen=True)
class Login:
    mechanism: str
    user: str
    password: str = field(repr=False)


@dataclass(frozen=True)
class Client:
    """The brokers, and how to connect to them."""

    brokers: tuple[tuple[str, int], ...]
    read_committed: bool = False
    name: str = "millrace"
    tls: Tls | None = None
    login: Login | None = None

    @property
    def user(self) -> str | None:
        return self.login.user if self.login else None


def client_of(bootstrap: str, java: Mapping[str, str]) -> Client:
    """The client that Spark's source would be with these settings. What it cannot be is refused by name."""
    given = {name: str(value) for name, value in java.items()}
    for name in sorted(given):
        if name not in _USED and not _LET_BE.fullmatch(name):
            raise _refused(name, "this reader does not know it")
    protocol = given.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in _PROTOCOLS:
        raise _refused("security.protocol", f"{protocol} is none of {', '.join(_PROTOCOLS)}")
    isolation = given.get("isolation.level", "read_uncommitted")
    if isolation not in ("read_committed", "read_uncommitted"):
        raise _refused("isolation.level", f"{isolation} is neither read_committed nor read_uncommitted")
    return Client(
        brokers=_brokers(bootstrap),
        read_committed=isolation == "read_committed",
        name=given.get("client.id", "millrace"),
        tls=_tls(given) if protocol.endswith("SSL") else None,
        login=_login(given) if protocol.startswith("SASL") else None,
    )


def _brokers(bootstrap: str) -> tuple[tuple[str, int], ...]:
    brokers = []
    for address in filter(None, (part.strip() for part in bootstrap.split(","))):
        found = re.fullmatch(r"(?:[A-Za-z_]+://)?(?:\[(?P<v6>[^\]]+)\]|(?P<host>[^:\[\]]+)):(?P<port>\d+)", address)
        if not found:
            raise BadSetting(f"kafka.bootstrap: {address} is no broker's address. Needed is host:port, or several.")
        brokers.append((found["v6"] or found["host"], int(found["port"])))
    if not brokers:
        raise BadSetting("kafka.bootstrap is empty. Needed is host:port, or several with commas between.")
    return tuple(brokers)


def _tls(given: Mapping[str, str]) -> Tls:
    for store in ("ssl.truststore", "ssl.keystore"):
        kind = given.get(f"{store}.type", "JKS")
        if kind.upper() != "PEM" and any(name.startswith(f"{store}.") for name in given):
            raise _refused(f"{store}.type", f"{kind} is Java's; this reader takes PEM")
    versions = given.get("ssl.enabled.protocols", "").replace(",", " ").split()
    if unknown := [version for version in versions if version not in ("TLSv1.2", "TLSv1.3")]:
        raise _refused("ssl.enabled.protocols", f"{unknown[0]} is neither TLSv1.2 nor TLSv1.3")
    if (protocol := given.get("ssl.protocol", "TLSv1.3")) not in ("TLS", "TLSv1.2", "TLSv1.3"):
        raise _refused("ssl.protocol", f"{protocol} is none of TLS, TLSv1.2, TLSv1.3")
    endpoint = given.get("ssl.endpoint.identification.algorithm", "https").strip().lower()
    if endpoint not in ("https", ""):
        raise _refused("ssl.endpoint.identification.algorithm", f"{endpoint} is neither https nor empty")
    return Tls(
        check_host=endpoint == "https",
        oldest="TLSv1.2" if not versions or "TLSv1.2" in versions else "TLSv1.3",
        trusted_file=given.get("ssl.truststore.location", ""),
        trusted=given.get("ssl.truststore.certificates", ""),
        own_file=given.get("ssl.keystore.location", ""),
        own="\n".join(given[n] for n in ("ssl.keystore.key", "ssl.keystore.certificate.chain") if n in given),
        own_password=given.get("ssl.key.password", ""),
    )


def _login(given: Mapping[str, str]) -> Login:
    mechanism = given.get("sasl.mechanism", "GSSAPI")
    if mechanism not in _LOGIN:
        raise _refused("sasl.mechanism", f"{mechanism} is none of {', '.join(_LOGIN)}")
    jaas = given.get("sasl.jaas.config", "")
    form = f'{_LOGIN[mechanism]} required username="…" password="…";'
    found = re.fullmatch(r"\s*(\S+)\s+(?:required|requisite|sufficient|optional)\s+(.*?)\s*;\s*", jaas, re.DOTALL)
    said = dict(_OPTION.findall(found[2])) if found else {}
    if not found or found[1] != _LOGIN[mechanism] or _OPTION.sub("", found[2]).strip() or set(said) != _USER:
        raise _refused("sasl.jaas.config", f"for {mechanism} it has to be: {form}")
    words = {name: re.sub(r"\\(.)", r"\1", value[1:-1]) if value[0] in "\"'" else value for name, value in said.items()}
    return Login(mechanism, words["username"], words["password"])


_USER = {"username", "password"}
_OPTION = re.compile(r"""(\w+)\s*=\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s;"']+)""")


def _refused(name: str, why: str) -> BadSetting:
    return BadSetting(
        f"kafka.client: {name} cannot be followed when the workers read Kafka themselves: {why}. Change or remove it, "
        f'or have Spark\'s source read: kafka.reader = "spark".',
        about=["kafka.client", "kafka.client_java", "kafka.reader"],
    )


def tls_context(tls: Tls) -> ssl.SSLContext:
    """Raises OSError or ssl.SSLError for files that are not there, or are none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = getattr(ssl.TLSVersion, tls.oldest.replace(".", "_"))
    context.check_hostname = tls.check_host
    if tls.trusted_file or tls.trusted:
        context.load_verify_locations(tls.trusted_file or None, cadata=tls.trusted or None)
    else:
        context.load_default_certs()
    if tls.own_file:
        context.load_cert_chain(tls.own_file, password=tls.own_password)
    elif tls.own:
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as held:  # the library reads keys from files only
            held.write(tls.own)
            held.flush()
            context.load_cert_chain(held.name, password=tls.own_password)
    return context
