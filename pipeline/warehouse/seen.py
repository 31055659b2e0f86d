"""What the tables say of a stream's batches, without Spark and without changing anything."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar, cast

from pipeline.config import settings
from pipeline.config.contracts import TableContract
from pipeline.warehouse import storage
from pipeline.warehouse.faults import Place
from pipeline.warehouse.log import TableLog
from pipeline.warehouse.places import told
from pipeline.warehouse.port import Standing
from pipeline.warehouse.record import CommitRecord

P = ParamSpec("P")
R = TypeVar("R")


def storage_told(method: Callable[P, R]) -> Callable[P, R]:
    """What the storage refuses inside ends as one sentence."""

    @functools.wraps(method)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        with told(cast(SeenTables, args[0]).place):
            return method(*args, **kwargs)

    return wrapped


class SeenTables:
    """The facts table and its side tables, by their logs."""

    def __init__(
        self,
        warehouse: settings.WarehouseSettings,
        facts: TableContract,
        sides: Sequence[TableContract],
        application: str,
    ) -> None:
        self._settings = warehouse
        self._facts = facts
        self._sides = {side.name: side for side in sides}
        self._application = application
        self.place = Place("warehouse.path", warehouse.path, warehouse.storage_options)

    @storage_told
    def standings(self) -> list[Standing]:
        facts, last = self._log_of(self._facts.name), self._last_record()
        due = last.sides_before if last else {}
        sides = [
            _standing(self._uri(name), self._log_of(name), self._application, due.get(name)) for name in self._sides
        ]
        return [_standing(self._uri(self._facts.name), facts, self._application), *sides]

    @storage_told
    def last_batch(self) -> int | None:
        log = self._log_of(self._facts.name)
        if log is None:
            return None
        log.refresh()
        return log.last_batch(self._application)

    @storage_told
    def last_note(self) -> dict[str, Any] | None:
        last = self._last_record()
        return last.note if last else None

    def _last_record(self) -> CommitRecord | None:
        last, log = self.last_batch(), self._log_of(self._facts.name)
        return log.record_of(self._application, last) if log and last is not None else None

    def _uri(self, name: str) -> str:
        return storage.table_uri(self._settings, name)

    def _log_of(self, name: str) -> TableLog | None:
        """The table's log; None if there is no such table."""
        uri, options = self._uri(name), self._settings.storage_options
        return TableLog(uri, options) if TableLog.exists(uri, options) else None


def _standing(uri: str, log: TableLog | None, application: str, due: int | None = None) -> Standing:
    batch = log.last_batch(application) if log else None
    if log is None or batch is None:
        return Standing(uri, None, due=due)
    made = log.record_of(application, batch)
    version = log.version_of(made) if made else None
    return Standing(
        uri,
        batch,
        checkpoint=made.note.get("checkpoint") if made else None,
        due=due,
        taken_back=None if version is None else log.taken_back(version),
    )
