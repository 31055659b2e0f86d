"""What `millrace sync --follow` publishes of the histories that it keeps, at an endpoint of its own."""

from __future__ import annotations

import time
from collections.abc import Iterable
from operator import add

from pipeline.watch.families import BUILD_INFO
from pipeline.watch.family import Family, Table, nowhere
from pipeline.watch.published import Published

OF_SYNC = Table({}, {BUILD_INFO.name: BUILD_INFO}, {})

_DIMENSION = ("dimension",)


def _counter(name: str, meaning: str) -> Family[float]:
    row = OF_SYNC.counters[name] = Family(name, _DIMENSION, meaning, nowhere, add)
    return row


def _gauge(name: str, meaning: str) -> Family[float]:
    row = OF_SYNC.gauges[name] = Family(name, _DIMENSION, meaning, nowhere, add)
    return row


# fmt: off
CHANGES = _counter("millrace_sync_changes_total", "Changes of the master's log that were committed to the history.")
VERSIONS = _counter("millrace_sync_versions_total", "Versions of rows that began, by the log or a snapshot.")
UNLOGGED = _counter("millrace_sync_unlogged_rows_total", "Rows that were found other than the log had told.")
SNAPSHOTS = _counter(
    "millrace_sync_snapshots_total", "Snapshots begun: the first one, and each time that the log did not go on.")
UP = _gauge(
    "millrace_sync_up", "1 while the log is followed; 0 in a snapshot, and while the server does not answer.")
POSITION = _gauge(
    "millrace_sync_position_timestamp_seconds",
    "Unix time up to which the history has all changes; none before that is known.")
LAST_COMMIT = _gauge("millrace_sync_last_commit_timestamp_seconds", "Unix time of the history's last commit.")
SNAPSHOT_ROWS = _gauge(
    "millrace_sync_snapshot_rows", "Rows that the snapshot has read so far; stays when it is done.")
SNAPSHOT_EXPECTED = _gauge(
    "millrace_sync_snapshot_expected_rows", "Rows that the master table had then; beyond a million an estimate.")
# fmt: on


class SyncMetrics(Published):
    """Of these dimensions."""

    def __init__(self, dimensions: Iterable[str]) -> None:
        super().__init__(OF_SYNC)
        self._awaited = set(dimensions)  # they were not followed yet
        for dimension in self._awaited:
            self._set(UP, (dimension,), 0)
            for family in OF_SYNC.counters.values():
                self._add(family, (dimension,), 0)

    def snapshot_begun(self, dimension: str) -> None:
        with self._lock:
            self._add(SNAPSHOTS, (dimension,), 1)

    def snapshot(self, dimension: str, rows: int, expected: int) -> None:
        """So many rows are read."""
        with self._lock:
            self._set(UP, (dimension,), 0)
            self._set(SNAPSHOT_ROWS, (dimension,), rows)
            self._set(SNAPSHOT_EXPECTED, (dimension,), expected)

    def committed(self, dimension: str, changes: int, versions: int, unlogged: int) -> None:
        with self._lock:
            self._set(LAST_COMMIT, (dimension,), time.time())
            for family, more in ((CHANGES, changes), (VERSIONS, versions), (UNLOGGED, unlogged)):
                self._add(family, (dimension,), more)

    def followed(self, dimension: str, upto: float) -> None:
        """The log is followed; the history has all of it up to this Unix time, if that is known (not 0)."""
        with self._lock:
            self._set(UP, (dimension,), 1)
            if upto:
                self._set(POSITION, (dimension,), upto)
            self._awaited.discard(dimension)
            self._is_ready = not self._awaited

    def silent(self, dimension: str) -> None:
        """The log cannot be followed for now."""
        with self._lock:
            self._set(UP, (dimension,), 0)
