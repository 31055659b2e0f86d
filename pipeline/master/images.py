"""What a database tells of the rows themselves, one change after the other: the port of who keeps their history.

`feed.py` is the other port: it tells which keys have changed, for who asks the master what they are now.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, Protocol

Row = tuple[Any, ...]  # natural key, surrogate key, update time, attributes: as the contract orders and types them


class LogPlace(NamedTuple):
    server: str
    order: tuple[int, ...]  # of two places in one server's log, the later one's is greater

    def is_beside(self, other: LogPlace) -> bool:
        """In one server's log. A name may have got more behind a point since the other was kept."""
        one, two = sorted((self.server, other.server), key=len)
        return one in (two, two.rpartition(".")[0])


class Upto(NamedTuple):
    """How far the log was told: behind so many changes of the transaction that begins at this place."""

    place: str
    changes: int = 0


class RowChange(NamedTuple):
    """A row that came (no `before`), went (no `after`) or changed."""

    before: Row | None
    after: Row | None
    position: Upto  # of this change itself
    at: datetime  # of its transaction, by the server's clock


@dataclass(frozen=True)
class Told:
    """Some changes in the order of the log; often none, only that it goes on."""

    changes: Sequence[RowChange]
    upto: Upto
    bytes: int = 0  # that the changes took in the log
    is_all: bool = False  # up to the end that the log had when it was begun to be followed
    lost: str = ""  # what comes next cannot be told, and why; nothing follows
    at: float = 0.0  # Unix time up to which all is told, by the server's clock; 0: not known yet


@dataclass(frozen=True)
class Kept:
    """What a server still has of its log."""

    lost: str = ""  # why it does not go on behind a position; nothing: it does
    seconds: int = 0  # for which it keeps what it writes; 0: it throws nothing away by itself


@dataclass(frozen=True)
class Beginning:
    """From where on the log tells all that a scan begun a moment later does not show."""

    place: str
    at: datetime  # by the server's clock
    shape: str  # of the table: another one's rows have to be looked at anew


class RowImages(Protocol):
    """The changes of one table's rows."""

    def begin(self) -> Beginning:
        """Where a history begins that begins now.

        Raises `FeedRefused` where server or table do not let it be kept.
        """
        ...

    def follow(self, upto: Upto, shape: str) -> Generator[Told, None, None]:
        """All changes behind this position, where the table had this shape. Says something every second at least.

        Raises `FeedRefused`; other errors may pass by themselves.
        """
        ...

    def kept(self, upto: Upto, shape: str) -> Kept:
        """Whether the log could be followed from there, without following it. Raises as `begin` does."""
        ...
