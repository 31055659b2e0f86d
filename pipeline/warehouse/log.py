"""One table's Delta log as `deltalake` reads it: what is committed, and what the table says of itself."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyarrow import fs

from pipeline.errors import WarehouseRefused
from pipeline.warehouse import disk, record
from pipeline.warehouse.record import CommitRecord
from pipeline.warehouse.storage import filesystem

# What a writer version implied before tables listed their features.
_LEGACY_FEATURES = {
    2: ("appendOnly", "invariants"),
    3: ("checkConstraints",),
    4: ("changeDataFeed", "generatedColumns"),
    5: ("columnMapping",),
    6: ("identityColumns",),
}


@dataclass(frozen=True)
class TableColumn:
    type: str  # Delta's name: long, decimal(18,2), …
    nullable: bool
    metadata: dict[str, Any]


@dataclass(frozen=True)
class TableDescription:
    """What a table says of itself."""

    columns: dict[str, TableColumn]
    partition_by: tuple[str, ...]
    properties: dict[str, str]
    features: frozenset[str]


_RECENTLY = 60.0  # seconds


class TableLog:
    """The log, read once and then followed. On a local disk each look at what is new lists all of its entries, a
    microsecond for each of them."""

    def __init__(self, uri: str, storage_options: dict[str, str]) -> None:
        self.uri = uri
        self.table = DeltaTable(uri, storage_options=storage_options)
        self._files = filesystem(uri, storage_options)
        self._kept = self.version() - 1  # of the newest one nobody knows whether it was
        self._read_at = time.monotonic()

    @staticmethod
    def exists(uri: str, storage_options: dict[str, str]) -> bool:
        return bool(DeltaTable.is_deltatable(uri, storage_options=storage_options))

    @classmethod
    def existing(cls, uri: str, storage_options: dict[str, str]) -> TableLog:
        if not cls.exists(uri, storage_options):
            raise WarehouseRefused(
                f"there is no Delta table at {uri}: no batch was committed there yet. Run the job first, or correct "
                f"warehouse.path."
            )
        return cls(uri, storage_options)

    def refresh(self) -> None:
        """Follow the log. `deltalake` takes a table that was deleted for one that did not change."""
        try:
            self.table.update_incremental()
        except DeltaError:
            self._refuse_if_gone()
            raise
        self._refuse_if_gone()
        self._read_at = time.monotonic()

    def refresh_before_a_commit(self) -> None:
        """Not if it was read a moment ago: what others have committed since, the commit itself is told of."""
        if time.monotonic() - self._read_at < _RECENTLY:
            self._refuse_if_gone()
        else:
            self.refresh()

    def _refuse_if_gone(self) -> None:
        if self._files.get_file_info(self._newest_entry).type == fs.FileType.NotFound:
            raise WarehouseRefused(
                f"{self.uri}: {self._newest_entry} is gone: the table was deleted, or an older state of it put in its "
                f"place, while the job ran. Start the job again: it says what is missing, and how to go on."
            )

    def last_batch(self, application: str) -> int | None:
        return self.table.transaction_version(application)

    def describe(self) -> TableDescription:
        metadata, protocol = self.table.metadata(), self.table.protocol()
        features = protocol.writer_features
        if features is None:
            known = _LEGACY_FEATURES.items()
            features = [name for version, names in known if version <= protocol.min_writer_version for name in names]
        columns = {
            field["name"]: TableColumn(_type_name(field["type"]), field["nullable"], field.get("metadata") or {})
            for field in json.loads(self.table.schema().to_json())["fields"]
        }
        return TableDescription(
            columns, tuple(metadata.partition_columns), dict(metadata.configuration), frozenset(features)
        )

    def record_of(self, application: str, batch: int) -> CommitRecord | None:
        """What the commit of a batch said; None if it has left the log."""
        found = self._newest(lambda said: (said.application, said.batch) == (application, batch))
        return found[1] if found else None

    def version_of(self, mine: CommitRecord) -> int | None:
        """The version that this very record made; None if it made none."""
        if self._is_newest(mine):
            return self.version()
        found = self._newest(lambda said: said.token == mine.token)
        return found[0] if found else None

    def taken_back(self, version: int) -> str | None:
        """What was done to the table after this version that took the version's rows out of it again; None if nothing.

        A restore keeps the transactions of the versions that it takes back, so a batch seems to be there whose rows are
        not. A restore to this version or a later one leaves them in, unless that one had lost them before.
        """
        resets = [commit for commit in self.table.history() if _resets(commit) and commit["version"] > version]
        upto = self.version()
        while reset := max((r for r in resets if r["version"] <= upto), key=lambda r: int(r["version"]), default=None):
            target = reset.get("operationParameters", {}).get("version")
            if reset["operation"] != "RESTORE" or target is None or int(target) < version:
                to = f" to version {target}" if target is not None else ""
                return f"{reset['operation']}{to} in version {reset['version']}"
            upto = int(target)
        return None

    def keep(self) -> None:
        """No power cut takes a version up to the one read last."""
        disk.keep_commits(self.uri, self._kept + 1, self.version())
        self._kept = self.version()

    def version(self) -> int:
        return int(self.table.version())

    @property
    def _newest_entry(self) -> str:
        return f"_delta_log/{self.version():020}.json"

    def _is_newest(self, mine: CommitRecord) -> bool:
        try:
            with self._files.open_input_stream(self._newest_entry) as entry:
                actions = [json.loads(line) for line in entry.readall().splitlines()]
        except FileNotFoundError:  # a checkpoint alone tells of it
            return False
        commits = [action["commitInfo"] for action in actions if "commitInfo" in action]
        said = [record.decode(commit.get(record.USER_METADATA)) for commit in commits]
        return any(one is not None and one.token == mine.token for one in said)

    def _newest(self, wanted: Any) -> tuple[int, CommitRecord] | None:
        """Almost always it is among the last few; other writers' commits may lie above it."""
        for limit in (8, 256, None):
            commits = self.table.history(limit)
            for commit in commits:
                said = record.decode(commit.get(record.USER_METADATA))
                if said and wanted(said):
                    return commit["version"], said
            if limit is None or len(commits) < limit:
                break
        return None


def _resets(commit: dict[str, Any]) -> bool:
    """Whether the table was put back to something else. `… AS SELECT` brings rows of its own, which are its maker's."""
    return commit.get("operation") in ("RESTORE", "CREATE OR REPLACE TABLE", "REPLACE TABLE")


def _type_name(kind: Any) -> str:
    return kind if isinstance(kind, str) else str(kind["type"])
