"""A Java that is new enough is found wherever it is, and its lack is said in one sentence."""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.java import runtime as java
from pipeline.java.runtime import NoJava, java_home


@pytest.fixture(autouse=True)
def _nothing_remembered() -> Iterator[None]:
    java_home.cache_clear()
    yield
    java_home.cache_clear()


def _install(home: Path, version: str) -> Path:
    """A program that says of itself what a Java of this version says, in the place where it would be."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        f"#!/bin/sh\ncat >&2 <<END\n    java.home = {home}\n    java.specification.version = {version}\nEND\n"
    )
    program.chmod(0o755)
    return home


def test_java_home_is_asked_before_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(_install(tmp_path / "chosen", "21")))
    monkeypatch.setenv("PATH", f"{_install(tmp_path / 'installed', '17')}/bin:/bin:/usr/bin")
    assert java_home() == tmp_path / "chosen"


def test_a_java_home_that_is_too_old_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(_install(tmp_path / "chosen", "1.8")))
    monkeypatch.setenv("PATH", f"{_install(tmp_path / 'installed', '17')}/bin:/bin:/usr/bin")
    assert java_home() == tmp_path / "installed"


def test_when_nothing_is_new_enough_the_sentence_names_what_was_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(_install(tmp_path / "chosen", "11")))
    monkeypatch.setenv("PATH", f"{_install(tmp_path / 'installed', '1.8')}/bin:/bin")
    monkeypatch.setattr(java, "_from_wheel", lambda: None)
    with pytest.raises(NoJava, match=r"17 or newer is needed.*chosen/bin/java is Java 11.*is Java 8.*make setup"):
        java_home()


def test_java_reads_the_key_store_made_of_this_machines_authorities(tmp_path: Path) -> None:
    certificates = [ssl.PEM_cert_to_DER_cert(_AUTHORITY)] * 2
    store = tmp_path / "authorities.jks"
    store.write_bytes(java._java_key_store(certificates))
    keytool = [java.java(), "-m", "java.base/sun.security.tools.keytool.Main"]
    listing = subprocess.run(
        [*keytool, "-list", "-keystore", store, "-storepass", "changeit"], capture_output=True, text=True, check=True
    ).stdout
    assert listing.count("trustedCertEntry") == 2


_AUTHORITY = """\
-----BEGIN CERTIFICATE-----
MIIBnzCCAUWgAwIBAgIUTqfTg5Z6phldHehC1/5V2qhYXkswCgYIKoZIzj0EAwIw
JDEiMCAGA1UEAwwZYW4gYXV0aG9yaXR5IG9mIHRoZSB0ZXN0czAgFw0yNjExMTgx
MjI1MDVaGA8yMTI2MTAyNTEyMjUwNVowJDEiMCAGA1UEAwwZYW4gYXV0aG9yaXR5
IG9mIHRoZSB0ZXN0czBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABOUnwjO7bDIt
AvTU/iRKT2CnFd0iNvKLTzIUVg/h9OoVyvf5tdc8Lxp0BJMGDKF5d9KjuPRcVPQX
onN3ARXOgFOjUzBRMB0GA1UdDgQWBBS5V5KndQf8xRC280TT0TFbePOOHDAfBgNV
HSMEGDAWgBS5V5KndQf8xRC280TT0TFbePOOHDAPBgNVHRMBAf8EBTADAQH/MAoG
CCqGSM49BAMCA0gAMEUCIQC0RpP4VWLuFptqlNpG+wug89AzDIJ4fajEtfq/ESwv
VAIgLnVCvPHFcE9kwhh44QweNmGT/jptrWc1gpw1aD3wpXY=
-----END CERTIFICATE-----
"""
