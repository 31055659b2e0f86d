"""What the pipeline sees of the warehouse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec


class FileAction(msgspec.Struct, frozen=True):
    """One finished Parquet file, as Delta's log describes it. JSON carries it from worker to driver."""

    path: str  # relative to the folder it was written to, as it is there: the committer encodes it for the log
    size: int
    partition_values: dict[str, str | None]
    modification_time: int  # milliseconds since 1970
    rows: int
    stats: str  # JSON


@dataclass(frozen=True)
class Batch:
    """Everything one micro-batch adds to the warehouse."""

    id: int
    facts: Sequence[FileAction]
    sides: Mapping[str, Sequence[FileAction]] = field(default_factory=dict)  # by table name
    note: Mapping[str, Any] = field(default_factory=dict)  # JSON: checkpoint, offsets, versions; kept in the commit


@dataclass(frozen=True)
class Standing:
    """How one table stands before a job goes on with it."""

    uri: str
    batch: int | None  # the newest that this application wrote to it
    checkpoint: str | None = None  # that batch was of the stream with this identity, where its commit says so
    due: int | None = None  # side tables: a batch that has to be there, by what the facts' commits say
    taken_back: str | None = None  # the operation after that batch that took its rows out of the table again


class WrittenTables(Protocol):
    """What the tables say of the batches in them: looked at, not touched."""

    def standings(self) -> list[Standing]:
        """How the tables stand, the facts first. A table that is missing has no batch."""
        ...

    def last_batch(self) -> int | None:
        """The newest batch of this application in the facts table."""
        ...

    def last_note(self) -> dict[str, Any] | None:
        """The note of that batch; None if there is none or its commit has left the log."""
        ...


class Warehouse(WrittenTables, Protocol):
    """The driver's side. A batch is in the facts table entirely or not at all, however often it is tried.

    `take_torn_aside` is called first, and `prepare` before all but what the tables say.
    """

    def take_torn_aside(self) -> None:
        """Take aside what a power cut has left unfinished in the tables' logs."""
        ...

    def prepare(self) -> None:
        """Create or check the tables and complete what the last run left half done."""
        ...

    def commit(self, batch: Batch) -> int:
        """Commit the facts, then the side tables: the new version of the facts. Refuses a batch that is there."""
        ...

    def note_of(self, batch_id: int) -> dict[str, Any] | None:
        """The note of a batch that is committed; None if its commit has left the log."""
        ...

    def finish(self, batch_id: int) -> None:
        """The facts of this batch are committed: complete its side tables. Harmless when they are."""
        ...

    def close(self) -> None: ...
