"""What a check finds, and what the checks share."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import Enum

from pipeline.config.measures import Seconds
from pipeline.config.settings import MasterData, Settings
from pipeline.master.port import ServerFacts
from pipeline.plan import Plan


class Level(str, Enum):
    """How bad it is. `run` would refuse what is a failure, or fail in its first batch."""

    OK = "ok"
    WARNING = "warning"
    FAILURE = "failure"
    NOT_CHECKED = "not checked"


@dataclass(frozen=True)
class Finding:
    """One line. Where `run` refuses with a sentence of its own, that is `what`, and names the remedy itself."""

    level: Level
    what: str
    remedy: str = ""


def ok(what: str) -> Finding:
    return Finding(Level.OK, what)


def warning(what: str, remedy: str = "") -> Finding:
    return Finding(Level.WARNING, what, remedy)


def failure(what: str, remedy: str = "") -> Finding:
    return Finding(Level.FAILURE, what, remedy)


def not_checked(what: str, remedy: str = "") -> Finding:
    return Finding(Level.NOT_CHECKED, what, remedy)


@dataclass
class Patient:
    """What is looked at, and what earlier checks have found of it."""

    settings: Settings
    plan: Plan
    within: float  # seconds that one answer of a server is waited for
    server: ServerFacts | None = None

    @property
    def master(self) -> MasterData:
        """As the job asks it, but nothing is tried again: a person waits."""
        given, most = self.settings.master, Seconds(self.within)
        connect, read = min(given.connect_timeout, most), min(given.read_timeout, most)
        return replace(given, retry_for=Seconds(0), connect_timeout=connect, read_timeout=read, connections=1)


@dataclass(frozen=True)
class Check:
    """A named question. It is not asked where one that it needs has failed, or was not asked itself."""

    name: str
    ask: Callable[[Patient], Iterator[Finding]]
    needs: tuple[str, ...] = ()


def is_here(host: str) -> bool:
    """Whether what is sent to this host stays on this machine.

    >>> is_here("localhost"), is_here("127.0.0.1"), is_here("::1"), is_here("db.example")
    (True, True, True, False)
    """
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
