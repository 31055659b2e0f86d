"""Certificates for a test: an authority, and what it signs for 127.0.0.1, as PEM."""

from __future__ import annotations

import ipaddress
from datetime import datetime, timedelta, timezone

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID


class Authority:
    def __init__(self, name: str) -> None:
        self._key, self._name = ec.generate_private_key(ec.SECP256R1()), _named(name)
        is_one = x509.BasicConstraints(ca=True, path_length=None)
        self._own = self._signed(self._name, self._key, [(is_one, True)])
        self.pem = _pem(self._own)

    def signs(self) -> tuple[str, str]:
        """A new key (PKCS #8) and its certificate, for a server and for a client on this machine."""
        key = ec.generate_private_key(ec.SECP256R1())
        here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        certificate = self._signed(_named("127.0.0.1"), key, [(here, False), (usage, False)])
        form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        return key.private_bytes(*form).decode(), _pem(certificate)

    def _signed(self, name: x509.Name, key: ec.EllipticCurvePrivateKey, extensions: list) -> x509.Certificate:
        now = datetime.now(timezone.utc)
        builder = x509.CertificateBuilder(self._name, name, key.public_key(), x509.random_serial_number())
        builder = builder.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
        for extension, critical in extensions:
            builder = builder.add_extension(extension, critical)
        return builder.sign(self._key, hashes.SHA256())


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()
