"""What a commit says about its batch, as JSON in the commit's user metadata: written and read by both writers.

A commit that heals facts of many batches says so in the same place.

The facts' commit carries the side tables' file actions. So whoever finds it can complete them without the workers.
"""

from __future__ import annotations

import uuid
from typing import Any

import msgspec

from pipeline.warehouse.port import FileAction

USER_METADATA = "userMetadata"  # Delta's own name; Spark shows it in DESCRIBE HISTORY


class CommitRecord(msgspec.Struct, frozen=True):
    """The batch a commit belongs to and what else has to be committed with it."""

    application: str
    batch: int
    writer: str  # the kind of committer, in whose folder the side tables' files lie
    sides: dict[str, list[FileAction]] = {}
    sides_before: dict[str, int] = {}  # the newest earlier batch that each side table has rows of
    note: dict[str, Any] = {}
    # Tells our commit from one that another driver made of the same batch.
    token: str = msgspec.field(default_factory=lambda: uuid.uuid4().hex)
    millrace: int = 1  # version of this format

    def of_side(self) -> CommitRecord:
        """What the commit of a side table says: the same batch of the same stream, nothing more to do."""
        stream = {"checkpoint": self.note["checkpoint"]} if "checkpoint" in self.note else {}
        return CommitRecord(self.application, self.batch, self.writer, note=stream, token=self.token)


class HealingRecord(msgspec.Struct, frozen=True):
    """What a commit says that heals facts. It names no batch, so nobody takes it for the commit of one."""

    application: str
    healed: dict[str, int]  # facts by dimension
    position: str | None = None  # of the master's change feed, where one brought the rows
    token: str = msgspec.field(default_factory=lambda: uuid.uuid4().hex)
    millrace: int = 1


def encode(record: CommitRecord | HealingRecord) -> str:
    return msgspec.json.encode(record).decode()


def decode(user_metadata: Any) -> CommitRecord | None:
    """None for anything another tool has written there, and for what heals facts.

    >>> decode('{"note": "monthly load"}'), decode(None)
    (None, None)
    """
    if not isinstance(user_metadata, str):
        return None
    try:
        return msgspec.json.decode(user_metadata, type=CommitRecord)
    except msgspec.DecodeError:
        return None


def decode_healing(user_metadata: Any) -> HealingRecord | None:
    """None for all but what heals facts.

    >>> decode_healing(encode(HealingRecord("shop", {"product": 3}))).healed, decode_healing("{}")
    ({'product': 3}, None)
    """
    try:
        return msgspec.json.decode(user_metadata or "", type=HealingRecord)
    except msgspec.DecodeError:
        return None
