"""Sizes, durations, secrets and places: the settings that are more than a number or a text."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

_UNITS = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))


class Bytes(int):
    """A size: a number of bytes, or text such as `64 MiB`.

    >>> int(Bytes.parse("1.5 KiB")), str(Bytes(64 << 20))
    (1536, '64 MiB')
    """

    @classmethod
    def parse(cls, text: str) -> Bytes:
        return cls(_measure(text, _SIZES))

    def __str__(self) -> str:
        for unit, size in _UNITS:
            if self and self % size == 0:
                return f"{self // size} {unit}"
        return f"{int(self)} B"


class Seconds(float):
    """A duration: a number of seconds, or text such as `500 ms`, `2 s`, `5 min`.

    >>> float(Seconds.parse("5 min"))
    300.0
    """

    @classmethod
    def parse(cls, text: str) -> Seconds:
        return cls(_measure(text, _DURATIONS))

    def __str__(self) -> str:
        return f"{self:g} s"


class Secret(str):
    """A text that is never printed."""

    def __repr__(self) -> str:
        return "'***'" if self else "''"


class Place(str):
    """A path or a URI. A relative path lies below the folder of the file that names it.

    >>> Place("lake").below(Path("/etc/millrace")), Place("s3a://lake/shop").below(Path("/etc/millrace"))
    ('/etc/millrace/lake', 's3a://lake/shop')
    """

    def below(self, folder: Path) -> Place:
        if not self or _SCHEME.match(self):
            return self
        mine = self == "~" or self.startswith("~/")
        # normpath and not resolve: a folder that is a link, as Kubernetes mounts settings, keeps its name.
        return Place(os.path.normpath(folder / (Path(self).expanduser() if mine else self)))


def rounded(count: float) -> str:
    """A size as it is shown, not as it is set.

    >>> rounded(512), rounded(3 << 20), rounded(1000 << 20)
    ('512 B', '3.0 MiB', '1000 MiB')
    """
    for unit, size in _UNITS:
        if count >= size:
            value = count / size
            return f"{value:.0f} {unit}" if value >= 100 else f"{value:.1f} {unit}"
    return f"{count:.0f} B"


_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_SIZES = {"": 1, "b": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "kb": 10**3, "mb": 10**6, "gb": 10**9}
_DURATIONS = {"": 1.0, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def _measure(text: str, units: Mapping[str, float]) -> float:
    number = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-zA-Z]*)", text.strip())
    if not number or number[2].lower() not in units:
        raise ValueError(text)
    return float(number[1]) * units[number[2].lower()]
