"""What each commit of a history says, as JSON in its user metadata: everything that the next sync goes on by."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Any

import msgspec

from pipeline.history.versions import Epoch
from pipeline.master.images import Upto


class SyncRecord(msgspec.Struct, frozen=True):
    """In the same commit as the rows, so both are there or neither is."""

    dimension: str
    sequence: int  # of the commits of this history: the version of its Delta transaction
    place: str  # up to where the log is in the table, and how much of the transaction that begins there
    changes: int
    shape: str  # of the master table, there
    next_number: int
    epoch_place: str
    epoch_at: datetime
    epoch_first: int
    reason: str  # why there is a snapshot: what was between the log's last word and it is not known
    scanned_to: str | None = None  # how far the snapshot has come: a position of the scan, in hexadecimal digits
    scanned_rows: int = 0
    is_scanned: bool = False
    is_whole: bool = False  # the rows that have gone were looked for, too: the snapshot is done
    token: str = msgspec.field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def epoch(self) -> Epoch:
        return Epoch(self.epoch_place, self.epoch_at, self.epoch_first)

    @property
    def upto(self) -> Upto:
        return Upto(self.place, self.changes)

    def next(self, **changes: Any) -> SyncRecord:
        """Of the commit after this one."""
        fresh = {"sequence": self.sequence + 1, "token": uuid.uuid4().hex}
        return msgspec.structs.replace(self, **fresh, **changes)

    def numbered(self, next_number: int) -> SyncRecord:
        return msgspec.structs.replace(self, next_number=next_number)


def encode(record: SyncRecord) -> str:
    return msgspec.json.encode(record).decode()


def decode(user_metadata: Any) -> SyncRecord | None:
    """None for what others have written there.

    >>> decode('{"note": "monthly load"}'), decode(None)
    (None, None)
    """
    if not isinstance(user_metadata, str):
        return None
    try:
        return msgspec.json.decode(user_metadata, type=SyncRecord)
    except msgspec.DecodeError:
        return None
