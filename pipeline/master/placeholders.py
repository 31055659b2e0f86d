"""Placeholder rows in a master table, by an account of its own: the port of who infers members."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any, NamedTuple, Protocol

Key = Sequence[Any]  # integers, texts, bytes: in the order of the natural key


class Outcome(Enum):
    INSERTED = "inserted"
    THERE = "there"  # the server has a row that it takes for this key's: nothing was changed
    REFUSED = "refused"  # the server does not take such a row


class Inserted(NamedTuple):
    outcome: Outcome
    why: str = ""  # by the server


class Placeholders(Protocol):
    """One table's."""

    def check(self) -> None:
        """Refuse a table into which no placeholder can be inserted, or an account that may not."""
        ...

    def insert(self, key: Key) -> Inserted:
        """At most one row, and no other is changed. Raises what concerns more than this key."""
        ...
