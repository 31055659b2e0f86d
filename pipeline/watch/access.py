"""Who may look at a job's metrics, and by what the job is known to who looks.

`metrics.token_file` has what each question for metrics must show, `metrics.tls_certificate` and `metrics.tls_key` what
encrypts it. `millrace status` and `top` read the same settings: they trust the job's own certificate and no other, so
that no authority is needed and no name has to fit.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
import ssl
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.config.settings import MetricsSettings
from pipeline.errors import BadSetting

_LEAST = 16  # characters of a token: fewer are guessed
_FIRST_CERTIFICATE = re.compile("-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\n?", re.DOTALL)


@dataclass(frozen=True)
class Access:
    token: str = field(default="", repr=False)
    certificate: str = ""  # a file
    key: str = ""  # a file, which only the job reads

    @classmethod
    def of(cls, settings: MetricsSettings) -> Access:
        token = _token(settings.token_file) if settings.token_file else ""
        return cls(token, settings.tls_certificate, settings.tls_key)

    def is_granted(self, authorization: str | None) -> bool:
        """By the header of a question. How long it takes does not tell how much of a token was right."""
        wanted = f"Bearer {self.token}".encode()
        return not self.token or hmac.compare_digest(wanted, (authorization or "").encode("utf-8", "replace"))

    def of_server(self) -> ssl.SSLContext | None:
        if not self.certificate:
            return None
        try:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            context.load_cert_chain(self.certificate, self.key)
            return context
        except OSError as error:
            raise BadSetting(
                f"metrics.tls_certificate = {self.certificate} and metrics.tls_key = {self.key} cannot be used: "
                f"{error.strerror or error}. They must be PEM files, and the key the certificate's, without a password."
            ) from error

    def of_client(self) -> ssl.SSLContext | None:
        """None: as the system trusts."""
        if not self.certificate:
            return None
        try:
            [own, *_] = _FIRST_CERTIFICATE.findall(Path(self.certificate).read_text("ascii")) or [""]
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False  # it is this certificate or none
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
            context.load_verify_locations(cadata=own)
            return context
        except (OSError, ValueError) as error:
            raise BadSetting(f"metrics.tls_certificate = {self.certificate} cannot be used: {error}.") from error


OPEN = Access()  # to all who reach it


def exposure(settings: MetricsSettings) -> str:
    """What is to be said of who reaches the metrics; nothing if that is this machine alone, or nobody unasked."""
    if _is_loopback(settings.host) or (settings.token_file and settings.tls_certificate):
        return ""
    here = f"metrics.host = {settings.host} is open to other machines, "
    if not settings.token_file:
        return here + "and whoever reaches it may read the metrics"
    return here + "and the token crosses the network in plain"


EXPOSURE_REMEDY = (
    "Set metrics.token_file, metrics.tls_certificate and metrics.tls_key, or let only Prometheus reach it."
)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _token(file: str) -> str:
    try:
        token = Path(file).read_text("ascii").strip()
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or "it is not ASCII"
        raise BadSetting(f"metrics.token_file = {file} cannot be read: {said}.") from error
    if not re.fullmatch(rf"[!-~]{{{_LEAST},}}", token):
        raise BadSetting(
            f"metrics.token_file = {file} must have one line of at least {_LEAST} characters without spaces: "
            f"`openssl rand -hex 32 > {file}` makes one."
        )
    return token
