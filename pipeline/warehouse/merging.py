"""Merges small files beside the running stream.

Every task of every batch leaves a file, and a commit looks at the list of all that live. So when `merge_files` of them
have come, a thread of the driver rewrites them: those below 16 MiB first, and what that makes, when it is many, below
256 MiB, so that a row is rewritten a few times and not once a merge. Rows stay in their order, and the merge is a
commit of its own that changes no data: it goes beside appends, and a reader sees either the old files or the new one.
What it replaces stays on the disk until `millrace maintain` takes it away. A merge that fails leaves the table as it
was, and is tried again when as many files have come again.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol, cast

import pyarrow as pa
from deltalake import PostCommitHookProperties, WriterProperties
from deltalake.exceptions import DeltaError

from pipeline.config.settings import WarehouseSettings
from pipeline.warehouse import storage
from pipeline.warehouse.log import TableLog
from pipeline.warehouse.partitions import text

log = logging.getLogger("millrace.merging")

SMALL, LARGE = 16 << 20, 256 << 20  # bytes: files below are merged, into some of this size
_MANY_MIDDLING = 32  # files of a partition between the two, until they are merged
_FAILED = (DeltaError, OSError, ValueError)  # what deltalake raises


class Tell(Protocol):
    """Hears of each merge."""

    def __call__(self, files: int, seconds: float, failed: bool) -> None: ...


class Merging:
    """Of one job: it is told of commits, and merges at most one table at a time."""

    def __init__(self, warehouse: WarehouseSettings, tell: Tell) -> None:
        self._warehouse, self._tell = warehouse, tell
        self._new: Counter[str] = Counter()
        self._looked_at: set[str] = set()  # tables
        self._found: dict[str, int] = {}  # small files of the fullest partition that an earlier job left
        self._thread = ThreadPoolExecutor(1, "merging")
        self._under_way: Future[None] | None = None
        # Spark's committer takes no part: on S3 its commits and deltalake's would overwrite each other.
        self._is_on = warehouse.merge_files > 0 and warehouse.writer == "arrow"

    def committed(self, table: str, files: int) -> None:
        """A batch has added so many files. The first batches say nothing of those that were there: they are looked at
        once, and count like new ones, else a job that is often started anew would leave twice as many."""
        if not self._is_on or not files:
            return
        is_first = table not in self._looked_at
        self._new[table] += files + self._found.pop(table, 0)
        is_idle = self._under_way is None or self._under_way.done()
        if is_idle and (is_first or self._new[table] >= self._warehouse.merge_files):
            self._new[table] = 0
            self._looked_at.add(table)
            self._under_way = self._thread.submit(self._look_at, table, is_first)

    def close(self) -> None:
        """Wait for the merge under way."""
        self._thread.shutdown(wait=True)

    def _look_at(self, table: str, is_first: bool) -> None:
        began, files, into = time.monotonic(), 0, 0
        uri = storage.table_uri(self._warehouse, table)
        try:
            opened = TableLog(uri, self._warehouse.storage_options)
            for below, many in ((SMALL, self._warehouse.merge_files), (LARGE, _MANY_MIDDLING)):
                small = _small_files(opened, below)
                # Others are left alone: somebody else may be merging them.
                crowded = [partition for partition, number in small.items() if number >= many]
                for partition in crowded:
                    done = self._merge(opened, partition, below)
                    files, into = files + done["numFilesRemoved"], into + done["numFilesAdded"]
                if is_first and below == SMALL:
                    self._found[table] = max((number for number in small.values() if number < many), default=0)
        except _FAILED as error:
            log.warning("%s: small files are not merged, and will be tried again: %s", uri, error)
            self._tell(files, time.monotonic() - began, failed=True)
            return
        if files:
            seconds = time.monotonic() - began
            log.info("%s: %d small files became %d in %.1f s", uri, files, into, seconds)
            self._tell(files, seconds, failed=False)

    def _merge(self, opened: TableLog, partition: tuple[object, ...], below: int) -> dict[str, Any]:
        codec = self._warehouse.compression.upper()
        columns = opened.table.metadata().partition_columns
        done = opened.table.optimize.compact(
            partition_filters=[(name, "=", text(value) or "") for name, value in zip(columns, partition, strict=True)]
            or None,
            target_size=below,
            max_concurrent_tasks=1,  # the other cores belong to the stream
            writer_properties=WriterProperties(compression=cast(Any, "UNCOMPRESSED" if codec == "NONE" else codec)),
            post_commithook_properties=PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False),
        )
        opened.keep()
        return done


def _small_files(opened: TableLog, below: int) -> Counter[tuple[object, ...]]:
    """How many files of each partition are below this size."""
    opened.refresh()
    live = pa.table(opened.table.get_add_actions(flatten=True))
    columns = opened.table.metadata().partition_columns
    small: Counter[tuple[object, ...]] = Counter()
    for row in live.select([*(f"partition.{name}" for name in columns), "size_bytes"]).to_pylist():
        if row.pop("size_bytes") < below:
            small[tuple(row.values())] += 1
    return small
