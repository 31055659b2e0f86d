"""The default committer: `deltalake` adds the workers' files to the log; no Spark job is needed for it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

import msgspec
from deltalake import CommitProperties, PostCommitHookProperties, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction

from pipeline.errors import WarehouseRefused
from pipeline.warehouse import features, record, tables
from pipeline.warehouse.committer import refuse_known_batch, version_made
from pipeline.warehouse.log import TableDescription
from pipeline.warehouse.port import FileAction
from pipeline.warehouse.record import CommitRecord
from pipeline.warehouse.tables import Table

_ATTEMPTS = 10
_COMMITS_BETWEEN_CLEAN_UPS = 100


class ArrowCommitter:
    """Files are written where they stay, so a commit only has to name them."""

    writer = "arrow"

    def __init__(self) -> None:
        self._checked: dict[str, TableDescription] = {}

    def check(self, table: Table) -> None:
        """Refuse tables with demands that only Spark can meet."""
        features.refuse_what_arrow_cannot_honour(table.log.describe(), table.contract, table.log.uri)

    def append(self, table: Table, files: Sequence[FileAction], made: CommitRecord) -> int:
        """One commit with the files, and the batch as its transaction.

        `deltalake` retries by itself when others append or optimise meanwhile. It gives up when the table's schema or
        properties change, or facts are healed: then they are checked again. It also gives up when another driver
        commits a batch of ours.
        """
        before = table.log.table.version()
        version = None
        for attempt in range(1, _ATTEMPTS + 1):
            if attempt == 1:
                table.log.refresh_before_a_commit()
            refuse_known_batch(table, made)
            self._check_again(table)
            _refuse_nulls(self._checked[table.log.uri], files, table.log.uri)
            try:
                self.commit(table, files, made)
            except CommitFailedError as error:
                version = version_made(table, made)
                if version is None and attempt == _ATTEMPTS:
                    raise WarehouseRefused(
                        f"{table.log.uri}: batch {made.batch} is not committed after {_ATTEMPTS} attempts, because "
                        f"others kept changing the table: {error}. Nothing is lost; start again when they are done."
                    ) from error
            except (DeltaError, OSError):
                # The answer may have been lost although the commit is there.
                version = version_made(table, made)
                if version is None:
                    raise
            else:
                version = version_made(table, made)
            if version is not None:
                break
        assert version is not None, "a commit that was not refused is in the log"
        if version // _COMMITS_BETWEEN_CLEAN_UPS != before // _COMMITS_BETWEEN_CLEAN_UPS:
            _clean_up_log(table)
        return version

    def _check_again(self, table: Table) -> None:
        """Of the log as it was read. Of changes made since then `deltalake` tells by refusing the commit."""
        found = table.log.describe()
        if found == self._checked.get(table.log.uri):
            return
        if missing := tables.check(found, table.contract, table.log.uri):
            names = ", ".join(column.name for column in missing)
            raise WarehouseRefused(f"{table.log.uri}: column {names} has gone while the job ran. Start it again.")
        features.refuse_what_arrow_cannot_honour(found, table.contract, table.log.uri)
        self._checked[table.log.uri] = found

    def commit(self, table: Table, files: Sequence[FileAction], made: CommitRecord) -> None:
        """One attempt."""
        now = time.time_ns() // 1_000_000
        table.log.table.create_write_transaction(
            [_add(file) for file in files],
            "append",
            table.log.table.schema(),
            partition_by=list(table.contract.partition_by),
            commit_properties=CommitProperties(
                custom_metadata={record.USER_METADATA: record.encode(made)},
                app_transactions=[Transaction(made.application, made.batch, now)],
            ),
            # Done by `_clean_up_log`, seldom: to find expired log files, each commit would list the whole log.
            post_commithook_properties=PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False),
        )

    def forget(self, table: Table, files: Iterable[FileAction]) -> None:
        """Files are written where they stay."""

    def forget_all(self, table: Table) -> None:
        """Files of failed attempts lie in the table itself; VACUUM knows them."""


def _add(file: FileAction) -> AddAction:
    return AddAction(file.path, file.size, file.partition_values, file.modification_time, True, file.stats)


def _clean_up_log(table: Table) -> None:
    if table.log.describe().properties.get("delta.enableExpiredLogCleanup", "true") == "true":
        table.log.table.cleanup_metadata()


class _NullCounts(msgspec.Struct):
    nulls: dict[str, int] = msgspec.field(name="nullCount", default_factory=dict)


def _refuse_nulls(found: TableDescription, files: Sequence[FileAction], uri: str) -> None:
    """Delta leaves NOT NULL to whoever writes."""
    required = features.not_null(found)
    for file in files if required else ():
        counts = msgspec.json.decode(file.stats, type=_NullCounts).nulls
        empty = {name for name in required if counts.get(name, 0) or file.partition_values.get(name, "") is None}
        if empty:
            raise WarehouseRefused(
                f"{uri}: column {', '.join(sorted(empty))} is NOT NULL, but this batch has rows without a value there. "
                f"ALTER TABLE … ALTER COLUMN … DROP NOT NULL, or make the field required in the topic's contract."
            )
