"""Under which name messages re-enter, and what the commit says of it."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import msgspec

from pipeline.driver.origin import account


def application_of(job: str) -> str:
    """The Delta transactions' application id; the rows carry the job's own name.

    >>> application_of("shop")
    'shop: re-entry'
    """
    return f"{job}: re-entry"


class Reentry(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who let which messages in, and why: the note of the commit."""

    what: str  # replay, or backfill
    offsets: dict[str, list[int]]  # by "topic/partition": of a replay each, of a backfill the first, the last, how many
    reason: str = ""
    by: str = msgspec.field(default_factory=account)
    at: str = msgspec.field(default_factory=lambda: datetime.now(timezone.utc).isoformat(timespec="seconds"))

    def as_note(self) -> dict[str, Any]:
        return dict(msgspec.to_builtins(self))
