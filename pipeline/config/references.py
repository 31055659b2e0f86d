"""Secrets that stand in a file or in the environment: settings carry where, and who needs one reads it then.

`"sasl.jaas.config" = '… password="${file:kafka.password}";'`, or `${env:KAFKA_PASSWORD}`: so nothing that is sent to
the workers has the secret itself, and each machine has its own file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from pipeline.config.measures import Place
from pipeline.errors import BadSetting

_REFERENCE = re.compile(r"(?P<quote>\"?)\$\{(?P<kind>file|env):(?P<name>[^{}]+)\}")
_NAMES_A_SECRET = re.compile(r"(?i)pass|secret|token|jaas|credential|access_key$|account_key$|\.key$")


def placed(value: str, folder: Path) -> str:
    """With relative files below the folder of the settings that name them.

    >>> placed('password="${file:kafka.password}"', Path("/etc/shop"))
    'password="${file:/etc/shop/kafka.password}"'
    """
    file = re.compile(r"(?<=\$\{file:)[^{}]+")
    return file.sub(lambda found: Place(found[0].strip()).below(folder), value)


def resolved(options: Mapping[str, str], table: str) -> dict[str, str]:
    """With what stands behind each reference. Within double quotes it is written as JAAS wants it there."""

    return {name: _REFERENCE.sub(partial(_found, f"{table}: {name}"), value) for name, value in options.items()}


def is_open_secret(name: str, value: str) -> bool:
    """Whether this is a secret itself, by its name, and not a reference to one.

    >>> is_open_secret("sasl.jaas.config", 'password="x"'), is_open_secret("sasl.jaas.config", 'password="${env:X}"')
    (True, False)
    """
    names_one = _NAMES_A_SECRET.search(name) and not name.endswith("_file")
    return bool(value and names_one and not _REFERENCE.search(value))


def _found(where: str, reference: re.Match[str]) -> str:
    text = _read(where, reference["kind"], reference["name"].strip())
    if reference["quote"]:
        text = text.replace("\\", "\\\\").replace('"', '\\"')
    return reference["quote"] + text


def _read(where: str, kind: str, name: str) -> str:
    if kind == "env":
        if name not in os.environ:
            raise BadSetting(f"{where} wants the environment variable {name}, which is not set here.")
        return os.environ[name]
    try:
        return Path(name).read_text("utf-8").rstrip("\r\n")
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or error
        raise BadSetting(f"{where} wants the file {name}, which cannot be read here: {said}.") from error
