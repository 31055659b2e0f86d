"""Fetches the jars of `deploy/jars.lock`, checks them, and keeps them in the cache.

PySpark ships Ivy, so no other tool is needed. Nothing is resolved transitively: the lock is the whole list. Which sets
a job needs is told by where its tables and its checkpoint lie.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit
from xml.sax.saxutils import quoteattr

import pyspark

from pipeline.config import resources
from pipeline.errors import MillraceError
from pipeline.java import downloads
from pipeline.java.runtime import environment, java

STORES = {"s3": "s3", "s3a": "s3", "abfs": "azure", "abfss": "azure", "gs": "google"}  # by the scheme of a path
SHIPPED_BY_PYSPARK = Path(pyspark.__file__).parent / "jars"


class JarsFailed(MillraceError):
    """A jar could not be had, or is not the one the lock names."""


@dataclass(frozen=True)
class Jar:
    """One line of the lock."""

    set: str
    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def file(self) -> str:
        return f"{self.group}_{self.artifact}-{self.version}.jar"

    @property
    def coordinate(self) -> str:
        return f"{self.group}:{self.artifact}:{self.version}"


def read_lock(path: Path | None = None) -> list[Jar]:
    """The lines of the lock: set, coordinate, sha256."""
    path = path or resources.deployed("jars.lock")
    jars = []
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if len(words) != 3 or words[1].count(":") != 2 or len(words[2]) != 64:
            raise JarsFailed(f"{path}:{number}: needs `set group:artifact:version sha256`, not {line!r}.")
        group, artifact, version = words[1].split(":")
        jars.append(Jar(words[0], group, artifact, version, words[2].lower()))
    return jars


def read_lock_of(of_set: str, lock: Path | None = None) -> list[Jar]:
    """The lines of one set: `spark`, `s3`, `azure`, `google`, `kafka`, `database`."""
    jars = read_lock(lock)
    if of_set not in {jar.set for jar in jars}:
        known = ", ".join(sorted({jar.set for jar in jars}))
        raise JarsFailed(f"no jars of the set {of_set!r} in jars.lock; it has {known}.")
    return [jar for jar in jars if jar.set == of_set]


def for_spark(*uris: str, stores: Iterable[str] = ()) -> list[Path]:
    """What Spark needs for Kafka, for Delta, and for the stores that these URIs name."""
    return [jar for of_set in _sets(uris, stores) for jar in fetch(of_set)]


def not_here(*uris: str) -> list[Jar]:
    """Those of `for_spark` that it would have to fetch first. Fetches and makes nothing."""
    return _missing([jar for of_set in _sets(uris) for jar in read_lock_of(of_set)], downloads.place("jars"))


def repository() -> str:
    """Where jars are fetched from."""
    named = os.environ.get("MILLRACE_MAVEN_REPOSITORY") or os.environ.get("DEFAULT_ARTIFACT_REPOSITORY")
    return named.rstrip("/") + "/" if named else ""


def _sets(uris: Iterable[str], stores: Iterable[str] = ()) -> list[str]:
    named = {STORES[scheme] for uri in uris if (scheme := urlsplit(uri).scheme) in STORES}
    return ["spark", *sorted({*named, *stores})]


def fetch(of_set: str, lock: Path | None = None) -> list[Path]:
    """The jars of one set as verified files in the cache."""
    wanted = read_lock_of(of_set, lock)
    kept = downloads.folder("jars")
    if missing := _missing(wanted, kept):
        if not os.access(kept, os.W_OK):
            raise JarsFailed(
                f"{len(missing)} jars of the set {of_set!r} ({missing[0].file}, …) are not in {kept}, and nothing can "
                f"be written there. Build the image with --build-arg STORE={of_set}, or name a folder of your own in "
                f"MILLRACE_CACHE."
            )
        # The second of two processes waits here and then finds everything in place.
        with downloads.locked("jars"):
            if missing := _missing(wanted, kept):
                _resolve(missing, kept)
    return [kept / jar.file for jar in wanted]


def _missing(wanted: list[Jar], kept: Path) -> list[Jar]:
    """Those not in the cache, or damaged there."""
    return [jar for jar in wanted if _sum_of(kept / jar.file) != jar.sha256]


def _sum_of(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.exists() else ""


def _resolve(missing: list[Jar], kept: Path) -> None:
    print(f"millrace: fetching {len(missing)} jars ({missing[0].set}) ...", file=sys.stderr, flush=True)
    with downloads.scratch(kept) as folder:
        _run_ivy(missing, folder)
        for jar in missing:
            _verify(jar, folder / jar.file)
            # Only a whole, checked file ever bears its final name.
            (folder / jar.file).replace(kept / jar.file)


def _verify(jar: Jar, fetched: Path) -> None:
    found = _sum_of(fetched)
    if found != jar.sha256:
        raise JarsFailed(
            f"{jar.file}: sha256 is {found}, but jars.lock says {jar.sha256}. The file was not kept. Either the "
            f"repository delivers another file than it used to, or the lock is wrong: compare with the publisher's sum."
        )


def _run_ivy(jars: list[Jar], folder: Path) -> None:
    root = f" root={quoteattr(repository())}" if repository() else ""
    (folder / "settings.xml").write_text(
        f'<ivysettings><settings defaultResolver="r"/><caches defaultCacheDir={quoteattr(f"{folder}/ivy")}/><resolvers>'
        # Without poms there is one request a jar; our sha256 replaces the repository's weaker sums.
        f'<ibiblio name="r" m2compatible="true" usepoms="false" checksums=""{root}/></resolvers></ivysettings>'
    )
    dependencies = "".join(
        f"<dependency org={quoteattr(jar.group)} name={quoteattr(jar.artifact)} rev={quoteattr(jar.version)} "
        f'transitive="false"/>'
        for jar in jars
    )
    (folder / "ivy.xml").write_text(
        f'<ivy-module version="2.0"><info organisation="millrace" module="jars"/>'
        f'<dependencies>{dependencies}<conflict manager="all"/></dependencies></ivy-module>'
    )
    (ivy,) = SHIPPED_BY_PYSPARK.glob("ivy-*.jar")
    command = [java(), "-cp", ivy, "org.apache.ivy.Main", "-settings", folder / "settings.xml"]
    command += ["-ivy", folder / "ivy.xml", "-retrieve", f"{folder}/[organisation]_[artifact]-[revision].[ext]"]
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, errors="replace", check=False, env=environment())
    lacking = [jar.coordinate for jar in jars if not (folder / jar.file).exists()]
    if done.returncode or lacking:
        raise JarsFailed(
            f"could not fetch {', '.join(lacking) or 'jars'} from {repository() or 'the public Maven repository'}. "
            f"Check the network (a proxy is given to Java by JAVA_TOOL_OPTIONS), or name a repository of your own in "
            f"MILLRACE_MAVEN_REPOSITORY. Ivy said: {_reason(done.stdout + done.stderr)}"
        )


def _reason(output: str) -> str:
    """The first of Ivy's errors, else of its warnings."""
    for heading in (":::: ERRORS", ":::: WARNINGS"):
        if said := output.partition(heading)[2].strip():
            return said.splitlines()[0].strip()
    return output.strip()[-500:]
