"""Heals facts in one Delta commit: those of the unknown member get the master rows that have come since.

The commit is a MERGE on the identity of the facts. It changes a dimension's columns only where its key is still the
unknown member, so a second one changes nothing. It goes beside the job and its merging of small files, by what
`deltalake` checks of the commits that came between its reading and its own:

- One that removed a file which it read (another repair, a merging) makes it fail. It begins again on what is there.
- One that added a file which it should have read makes it fail, too: but only if by the file's statistics it may hold
  rows within the bounds that the MERGE names. They are the batches and offsets of the facts at hand, and what the job
  appends has others; so it does not stop a repair.
- An append of the job that meets a finished repair is refused and tried again by the job's committer; a merging that
  meets one fails, and is tried again later.

`deltalake` writes a file anew as a stream. Its operators go to temporary files beyond `_MEMORY`, but its readers and
writers take more beside them: a process that healed a file of 4 million facts seven times grew to 2 GiB. What it
replaces stays until `millrace maintain` takes it away, so earlier versions can still be read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, PostCommitHookProperties, WriterProperties
from deltalake.exceptions import CommitFailedError, DeltaError

from pipeline import columns
from pipeline.config.contracts import TableContract
from pipeline.config.settings import WarehouseSettings
from pipeline.errors import WarehouseRefused
from pipeline.warehouse import features, record, tables
from pipeline.warehouse.log import TableLog
from pipeline.warehouse.record import HealingRecord

IDENTITY = (columns.TOPIC, columns.PARTITION, columns.OFFSET)  # of a fact, among those of one application
BOUNDED = (columns.BATCH, columns.OFFSET)

_ATTEMPTS = 10
_MEMORY = 256 << 20  # bytes
_ROW_GROUP = 1 << 17  # rows: as large as a job's windows


def refuse_what_is_not_safe(
    log: TableLog, contract: TableContract, warehouse: WarehouseSettings, job_is_stopped: bool
) -> None:
    """Refuse a table that must not be healed, or not now."""
    on_s3 = urlsplit(log.uri).scheme in ("s3", "s3a")
    if on_s3 and warehouse.writer == "spark" and not job_is_stopped:
        raise WarehouseRefused(
            f"{log.uri}: on S3 the commits of warehouse.writer = spark and a repair's would overwrite each other. Stop "
            f"every job that writes the table, then say so with --job-is-stopped."
        )
    found = log.describe()
    if missing := tables.check(found, contract, log.uri):
        raise WarehouseRefused(
            f"{log.uri} has no column {', '.join(column.name for column in missing)}, which the contract of "
            f"{contract.name} names. Run the job once: it adds them."
        )
    features.refuse_what_arrow_cannot_honour(found, contract, log.uri)
    if found.properties.get("delta.appendOnly") == "true":
        raise WarehouseRefused(
            f"{log.uri}: delta.appendOnly is set, so no fact may change. ALTER TABLE … UNSET TBLPROPERTIES it, or "
            f"leave the unknown facts as they are."
        )
    if "deletionVectors" in found.features:
        raise WarehouseRefused(
            f"{log.uri}: the table may have deletion vectors, which deltalake does not read. Drop them: ALTER TABLE … "
            f"DROP FEATURE deletionVectors."
        )


def heal(log: TableLog, contract: TableContract, found: pa.Table, made: HealingRecord) -> int:
    """How many facts the commit has changed.

    `found` has the facts' identity, their `BOUNDED` columns, and of each dimension its columns, by the names of the
    journey, where the surrogate key is the unknown member if this dimension has nothing for the fact.
    """
    merge = _Merge(contract, found)
    said = record.encode(made)
    for attempt in range(1, _ATTEMPTS + 1):
        log.refresh()
        try:
            healed: int | None = int(merge.execute(log, said)["num_target_rows_updated"])
        except (DeltaError, OSError) as error:
            # The answer may have been lost although the commit is there.
            log.refresh()
            healed = _healed_by(log, said)
            if healed is None and not isinstance(error, CommitFailedError):
                raise
            if healed is None and attempt == _ATTEMPTS:
                raise WarehouseRefused(
                    f"{log.uri}: {len(found):,} facts are not healed after {_ATTEMPTS} attempts, because others kept "
                    f"changing the same files: {str(error).splitlines()[0]} Those healed before "
                    f"stay so; run it again later."
                ) from error
        if healed is not None:
            log.keep()
            return healed
    raise AssertionError("the last attempt returns or raises")


class _Merge:
    """The statement, from the contract's names and the facts at hand."""

    def __init__(self, contract: TableContract, found: pa.Table) -> None:
        self._contract = contract
        self._found = _once_each(found, identity_of(contract))
        self._dimensions = [
            columns.origin(name)
            for name in found.column_names
            if columns.origin(name) not in columns.OTHERS and name.endswith(f".{columns.SURROGATE_KEY}")
        ]

    def execute(self, log: TableLog, said: str) -> dict[str, Any]:
        # The names of the journey have dots in them.
        source = self._found.rename_columns([f"c{i}" for i in range(self._found.num_columns)])
        merge = log.table.merge(
            source,
            " AND ".join(self._matches()),
            source_alias="s",
            target_alias="t",
            streamed_exec=False,
            max_spill_size=_MEMORY,
            writer_properties=WriterProperties(compression="SNAPPY", max_row_group_size=_ROW_GROUP),
            commit_properties=CommitProperties(custom_metadata={record.USER_METADATA: said}),
            post_commithook_properties=PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False),
        )
        changes = " OR ".join(map(self._heals, self._dimensions))
        return merge.when_matched_update(dict(self._updates()), predicate=changes).execute()

    def _matches(self) -> Iterator[str]:
        """The same fact, and bounds by which files are left out."""
        for source in identity_of(self._contract):
            yield f"{self._old(source)} = {self._new(source)}"
        for source in BOUNDED:
            if source in self._contract.by_source:
                bounds = pc.min_max(self._found[source]).as_py()
                yield f"{self._old(source)} >= {bounds['min']} AND {self._old(source)} <= {bounds['max']}"
        unknown = (f"{self._old_key(dimension)} = {columns.UNKNOWN_MEMBER}" for dimension in self._dimensions)
        yield f"({' OR '.join(unknown)})"

    def _heals(self, dimension: str) -> str:
        key = columns.of_dimension(dimension, columns.SURROGATE_KEY)
        unknown = columns.UNKNOWN_MEMBER
        return f"({self._old(key)} = {unknown} AND {self._new(key)} <> {unknown})"

    def _updates(self) -> Iterator[tuple[str, str]]:
        for column in self._contract.columns:
            old, dimension = f"t.{_quoted(column.name)}", columns.origin(column.source)
            if dimension in self._dimensions:
                new = self._new(column.source)
                yield _quoted(column.name), f"CASE WHEN {self._heals(dimension)} THEN {new} ELSE {old} END"
            elif column.source in columns.FACT:
                yield _quoted(column.name), self._new(column.source)

    def _old_key(self, dimension: str) -> str:
        return self._old(columns.of_dimension(dimension, columns.SURROGATE_KEY))

    def _old(self, source: str) -> str:
        return f"t.{_quoted(self._contract.by_source[source].name)}"

    def _new(self, source: str) -> str:
        return f"s.c{self._found.column_names.index(source)}"


def identity_of(contract: TableContract) -> list[str]:
    """By where they come from. Several applications may write the same messages to one table."""
    return [*([columns.APPLICATION] if columns.APPLICATION in contract.by_source else []), *IDENTITY]


def _once_each(found: pa.Table, identity: Sequence[str]) -> pa.Table:
    """A message may be several facts, where another master's keys repeat: one row of the source changes them all."""
    numbered = found.select(identity).append_column("row", pa.array(range(len(found)), pa.int64()))
    rows = numbered.group_by(identity, use_threads=False).aggregate([("row", "min")])["row_min"]
    return found.take(rows.combine_chunks().sort())


def _healed_by(log: TableLog, said: str) -> int | None:
    """The facts that the commit with these very words has changed; None if there is none."""
    for commit in log.table.history(256):
        if commit.get(record.USER_METADATA) == said:
            return int(commit["operationMetrics"]["num_target_rows_updated"])
    return None


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
