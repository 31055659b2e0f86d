"""What the two committers have in common."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from pipeline.errors import WarehouseRefused
from pipeline.warehouse.port import FileAction
from pipeline.warehouse.record import CommitRecord
from pipeline.warehouse.tables import Table


class AlreadyCommitted(WarehouseRefused):
    """The batch is in the table: by an earlier try, or by a second driver."""


class Committer(Protocol):
    """Puts files into one table in one commit."""

    writer: str

    def check(self, table: Table) -> None:
        """Refuse a table this writer cannot append to, and be ready to append to it."""
        ...

    def append(self, table: Table, files: Sequence[FileAction], made: CommitRecord) -> int:
        """Append the files; the version that made. Raises `AlreadyCommitted` if the batch is there already."""
        ...

    def forget(self, table: Table, files: Iterable[FileAction]) -> None:
        """The batch is committed in all tables: what the workers wrote is needed nowhere else."""
        ...

    def forget_all(self, table: Table) -> None:
        """No batch is under way: whatever is staged for this table belongs to failed attempts."""
        ...


def refuse_known_batch(table: Table, made: CommitRecord) -> None:
    """Delta itself refuses a batch only if another driver commits it between our look at the log and our commit."""
    last = table.log.last_batch(made.application)
    if last is not None and last >= made.batch:
        raise AlreadyCommitted(
            f"{table.log.uri}: batch {made.batch} of {made.application} is refused, since batch {last} is committed. "
            f"Either two jobs run as job.name = {made.application}: stop one, or give it a name and checkpoint of its "
            f"own. Or the checkpoint is older than the table: restore it, or start under a new job.name."
        )


def version_made(table: Table, made: CommitRecord) -> int | None:
    """After a try: the version it made, None if it made none; `AlreadyCommitted` if another driver's commit stands."""
    table.log.refresh()
    version = table.log.version_of(made)
    if version is None:
        refuse_known_batch(table, made)
    return version
