"""`millrace bundle`: what somebody needs who is asked why a job does what it does, in one archive and without a secret.

Secrets are left out twice: by the names of settings, where whatever is not known to be harmless is hidden; and by
value, since what is secret in these settings is looked for in every file of the archive.
"""

from __future__ import annotations

import io
import json
import os
import platform
import re
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from pipeline.advise import words
from pipeline.config.measures import Secret
from pipeline.config.settings import Settings
from pipeline.doctor.examine import Line
from pipeline.errors import BadSetting, MillraceError
from pipeline.plan import resolve
from pipeline.warehouse import places, record, storage
from pipeline.warehouse.log import TableLog
from pipeline.watch.logs import redacted
from pipeline.watch.scrape import of_settings, scrape

_TAIL = 1 << 20  # bytes of a log
_BATCHES = 50  # newest commits
_SHORTEST = 4  # letters of a secret that is looked for by value: a shorter one would blank out half of a log
_HIDDEN = "***"
_OPEN = ("kafka.client", "kafka.client_java", "kafka.client_librdkafka", "spark.conf", "warehouse.storage_options")
_SAYS_SECRET = re.compile(r"(?i)pass|pwd|secret|token|key|jaas|credential|sas|user|sign")
_HARMLESS = re.compile(r"true|false|\d+ ?[a-zA-Z]{0,3}")
_HARMLESS_NAMES = {"security.protocol", "sasl.mechanism", "sasl.mechanisms", "isolation.level", "AWS_REGION"}


def write(to: Path, settings: Settings, examined: Sequence[Line], logs: Sequence[Path]) -> list[str]:
    """The archive; the names of the files in it. A file that is there already is left as it is."""
    secrets = sorted(_secrets(settings), key=len, reverse=True)
    parts = {f"{to.name.partition('.')[0]}/{name}": text for name, text in _parts(settings, examined, logs)}
    try:
        handle = os.open(to, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise BadSetting(f"{to} is there already; it was left as it is. Name another file.") from None
    with os.fdopen(handle, "wb") as file, tarfile.open(fileobj=file, mode="w:gz") as archive:
        for name, text in parts.items():
            data = _without(secrets, redacted(text)).encode()
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime, entry.mode = len(data), int(time.time()), 0o600
            archive.addfile(entry, io.BytesIO(data))
    return list(parts)


def _parts(settings: Settings, examined: Sequence[Line], logs: Sequence[Path]) -> Iterator[tuple[str, str]]:
    yield "versions.txt", _versions()
    yield "settings.txt", "".join(f"{name} = {value}\n" for name, value in shown(settings))
    yield "plan.txt", _or_why(lambda: words.of(resolve(settings)))
    yield "doctor.txt", "".join(f"{e.finding.level.value}\t{e.check}\t{_said(e)}\n" for e in examined)
    yield "metrics.txt", _or_why(lambda: _metrics(settings))
    yield "batches.json", _or_why(lambda: json.dumps(_batches(settings), indent=1))
    for number, log in enumerate(logs, start=1):
        yield f"log-{number}-{log.name}", _tail(log)


def shown(value: Any, name: str = "") -> Iterator[tuple[str, object]]:
    """Every setting by its name; of what goes to others as it is, only what is known to be harmless."""
    here = f"{name}." if name else ""
    if is_dataclass(value):
        for each in fields(value):
            yield from shown(getattr(value, each.name), here + each.name)
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from [(here + key, _option(key, each))] if name in _OPEN else shown(each, here + key)
    else:
        yield name, _HIDDEN if isinstance(value, Secret) and value else value


def _option(name: str, value: str) -> str:
    """
    >>> _option("security.protocol", "SSL"), _option("ssl.keystore.key", "PEM"), _option("fetch.max.bytes", "1000")
    ('SSL', '***', '1000')
    >>> _option("sasl.password", "1234")
    '***'
    """
    known = name in _HARMLESS_NAMES or (_HARMLESS.fullmatch(value) and not _SAYS_SECRET.search(name))
    return value if known else _HIDDEN


def _secrets(settings: Settings) -> set[str]:
    """All that is hidden above, and what is in files."""
    found = {str(settings.master.password)}
    for file in filter(None, (settings.master.password_file, settings.metrics.token_file)):
        with suppress(OSError, ValueError):  # the doctor has said so
            found.add(Path(file).read_text("utf-8").rstrip("\r\n"))
    for options in _for_others(settings):
        for name, value in options.items():
            if _option(name, value) == _HIDDEN and _SAYS_SECRET.search(name):
                written = re.findall(r'password="((?:[^"\\]|\\.)*)"', value)
                found |= {value, *written, *(re.sub(r"\\(.)", r"\1", each) for each in written)}
    return {secret for secret in found if len(secret) >= _SHORTEST}


def _for_others(settings: Settings) -> Iterator[Mapping[str, str]]:
    """What goes to others as it is: as it stands in the settings, and with what its references mean."""
    kafka = settings.kafka
    yield from (kafka.client, kafka.client_java, kafka.client_librdkafka)
    yield from (settings.spark.conf, settings.warehouse.storage_options)
    with suppress(MillraceError):  # a file that is not there, of which the doctor has said so
        yield from (kafka.java, kafka.librdkafka)


def _without(secrets: Sequence[str], text: str) -> str:
    for secret in secrets:
        text = text.replace(secret, _HIDDEN)
    return text


def _versions() -> str:
    found = {each.metadata["Name"]: each.version for each in metadata.distributions()}
    lines = [f"{name} {version}" for name, version in sorted(found.items(), key=lambda pair: pair[0].lower())]
    return "\n".join([f"Python {platform.python_version()} on {platform.platform()}", *lines]) + "\n"


def _metrics(settings: Settings) -> str:
    seen = scrape(*of_settings(settings.metrics))
    series = [(name, sorted(labels), value) for name, of in seen.samples.items() for labels, value in of.items()]
    return "".join(f"{name}{dict(labels) if labels else ''} {value:g}\n" for name, labels, value in sorted(series))


def _batches(settings: Settings) -> list[dict[str, Any]]:
    """What the newest commits of the facts say of themselves."""
    uri = storage.table_uri(settings.warehouse, settings.warehouse.facts)
    options = places.soon(settings.warehouse.storage_options)
    with places.told(places.tables(settings)):
        commits = TableLog(uri, options).table.history(_BATCHES) if TableLog.exists(uri, options) else []
    told = []
    for commit in commits:
        said = record.decode(commit.get(record.USER_METADATA))
        batch = {"application": said.application, "batch": said.batch, "note": said.note} if said else {}
        told.append({key: commit.get(key) for key in ("version", "timestamp", "operation")} | batch)
    return told


def _tail(log: Path) -> str:
    with log.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _TAIL))
        return file.read().decode("utf-8", "replace")


def _said(line: Line) -> str:
    return " ".join(filter(None, [line.finding.what, line.finding.remedy])).replace("\n", " ")


def _or_why(ask: Callable[[], str]) -> str:
    """One part that cannot be had must not keep the others back."""
    try:
        return ask()
    except MillraceError as error:
        return f"{error}\n"
