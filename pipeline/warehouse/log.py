"""One table's Delta log as `deltalake` reads it: what is committed, and what the table says of itself."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from deltalake import DeltaTable

from pipeline.warehouse import record
from pipeline.warehouse.record import CommitRecord

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


class TableLog:
    """The log, read once and then followed."""

    def __init__(self, uri: str, storage_options: dict[str, str]) -> None:
        self.uri = uri
        self.table = DeltaTable(uri, storage_options=storage_options)

    @staticmethod
    def exists(uri: str, storage_options: dict[str, str]) -> bool:
        return bool(DeltaTable.is_deltatable(uri, storage_options=storage_options))

    def refresh(self) -> None:
        self.table.update_incremental()

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
        found = self._newest(lambda said: said.token == mine.token)
        return found[0] if found else None

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


def _type_name(kind: Any) -> str:
    return kind if isinstance(kind, str) else str(kind["type"])
