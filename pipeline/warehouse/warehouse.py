"""One batch, one commit: the facts first, then whatever goes to the side tables.

A batch counts as done when its facts are committed. Their commit carries the side tables' files, so if the driver dies
before those are committed too, the next one completes them from there and computes nothing again.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from pipeline.config import settings
from pipeline.config.contracts import TableContract
from pipeline.errors import WarehouseRefused
from pipeline.warehouse import partitions, storage, tables
from pipeline.warehouse.arrow import ArrowCommitter
from pipeline.warehouse.committer import AlreadyCommitted, Committer
from pipeline.warehouse.faults import Place
from pipeline.warehouse.log import TableLog
from pipeline.warehouse.places import told
from pipeline.warehouse.port import Batch, Standing, Warehouse
from pipeline.warehouse.record import CommitRecord
from pipeline.warehouse.spark import SparkCommitter
from pipeline.warehouse.tables import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def make_warehouse(
    warehouse: settings.WarehouseSettings,
    facts: TableContract,
    sides: Sequence[TableContract],
    application: str,
    spark: SparkSession,
) -> Warehouse:
    """The warehouse of the settings. Its tables are touched first by `prepare`."""
    for contract in (facts, *sides):
        partitions.check(contract)
    committer: Committer = (
        ArrowCommitter() if warehouse.writer == "arrow" else SparkCommitter(spark, warehouse, application)
    )
    return TwoStepWarehouse(warehouse, facts, sides, application, spark, committer)


P = ParamSpec("P")
R = TypeVar("R")


def _storage_told(method: Callable[P, R]) -> Callable[P, R]:
    """What the storage refuses inside ends as one sentence."""

    @functools.wraps(method)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        with told(cast(TwoStepWarehouse, args[0]).place):
            return method(*args, **kwargs)

    return wrapped


class TwoStepWarehouse:
    """The facts table, its side tables, and a committer for all of them."""

    def __init__(
        self,
        warehouse: settings.WarehouseSettings,
        facts: TableContract,
        sides: Sequence[TableContract],
        application: str,
        spark: SparkSession,
        committer: Committer,
    ) -> None:
        self._settings = warehouse
        self._facts = facts
        self._sides = {side.name: side for side in sides}
        self._application = application
        self._spark = spark
        self._committer = committer
        self._tables: dict[str, Table] = {}
        self.place = Place("warehouse.path", warehouse.path, warehouse.storage_options)
        self._newest_of_side: dict[str, int] = {}  # the newest batch that each side table has rows of

    @_storage_told
    def standings(self) -> list[Standing]:
        facts, last = self._log_of(self._facts.name), self._last_record()
        due = last.sides_before if last else {}
        sides = [
            _standing(self._uri(name), self._log_of(name), self._application, due.get(name)) for name in self._sides
        ]
        return [_standing(self._uri(self._facts.name), facts, self._application), *sides]

    @_storage_told
    def prepare(self) -> None:
        for contract in (self._facts, *self._sides.values()):
            self._tables[contract.name] = self._open(contract)
        if (last := self._last_record()) is not None:
            self._complete(last)
            self._newest_of_side = {**last.sides_before, **dict.fromkeys(last.sides, last.batch)}
        for table in self._tables.values():
            self._committer.forget_all(table)

    @_storage_told
    def last_batch(self) -> int | None:
        log = self._log_of(self._facts.name)
        if log is None:
            return None
        log.refresh()
        return log.last_batch(self._application)

    @_storage_told
    def last_note(self) -> dict[str, Any] | None:
        last = self._last_record()
        return last.note if last else None

    @_storage_told
    def commit(self, batch: Batch) -> int:
        if unknown := batch.sides.keys() - self._sides.keys():
            raise WarehouseRefused(
                f"batch {batch.id}: {sorted(unknown)} are no side tables; those are {[*self._sides]}."
            )
        made = CommitRecord(
            application=self._application,
            batch=batch.id,
            writer=self._committer.writer,
            sides={name: list(files) for name, files in batch.sides.items() if files},
            sides_before=self._newest_of_side,
            note=dict(batch.note),
        )
        version = self._committer.append(self._facts_table, batch.facts, made)
        self._complete(made)
        self._newest_of_side = self._newest_of_side | dict.fromkeys(made.sides, made.batch)
        self._committer.forget(self._facts_table, batch.facts)
        return version

    @_storage_told
    def note_of(self, batch_id: int) -> dict[str, Any] | None:
        made = self._facts_table.log.record_of(self._application, batch_id)
        return made.note if made else None

    @_storage_told
    def finish(self, batch_id: int) -> None:
        last = self.last_batch()
        if last is None or last < batch_id:
            raise WarehouseRefused(
                f"{self._facts_table.log.uri}: batch {batch_id} of {self._application} cannot be finished, since its "
                f"facts are not committed (the last batch there is {last}). Commit it."
            )
        made = self._facts_table.log.record_of(self._application, batch_id)
        if made is not None:
            self._complete(made)
        elif last == batch_id:  # older batches were complete before a newer one was begun
            raise WarehouseRefused(
                f"{self._facts_table.log.uri}: the commit of batch {batch_id} has left the log, so it cannot be "
                f"told whether {', '.join(self._sides)} has its part. Compare with Kafka, then start under a new "
                f"job.name."
            )

    def close(self) -> None:
        self._tables.clear()

    @property
    def _facts_table(self) -> Table:
        if self._facts.name not in self._tables:
            raise RuntimeError("call prepare() first")
        return self._tables[self._facts.name]

    def _open(self, contract: TableContract) -> Table:
        uri, options = self._uri(contract.name), self._settings.storage_options
        table, missing = tables.open_table(uri, contract, options)
        self._committer.check(table)
        if missing:
            tables.add_columns(self._spark, table, missing)
        return table

    def _last_record(self) -> CommitRecord | None:
        last, log = self.last_batch(), self._log_of(self._facts.name)
        return log.record_of(self._application, last) if log and last is not None else None

    def _uri(self, name: str) -> str:
        return storage.table_uri(self._settings, name)

    def _log_of(self, name: str) -> TableLog | None:
        """The table's log, whether `prepare` was called or not; None if there is no such table."""
        if name in self._tables:
            return self._tables[name].log
        uri, options = self._uri(name), self._settings.storage_options
        return TableLog(uri, options) if TableLog.exists(uri, options) else None

    def _complete(self, made: CommitRecord) -> None:
        """Commit the batch's part of each side table that does not have it yet."""
        for name, files in made.sides.items():
            if name not in self._tables:
                raise WarehouseRefused(
                    f"batch {made.batch} of {made.application} still has to be committed to {name}, which this job "
                    f"does not write. Start once with the settings of the last run."
                )
            table = self._tables[name]
            table.log.refresh()
            last = table.log.last_batch(made.application)
            if last is not None and last >= made.batch:
                continue
            if made.writer != self._committer.writer:
                raise WarehouseRefused(
                    f"batch {made.batch} of {made.application} still has to be committed to {name} by the other "
                    f"writer. Start once with warehouse.writer = {made.writer}."
                )
            with contextlib.suppress(AlreadyCommitted):  # another driver completes the same files
                self._committer.append(table, files, made.of_side())
            self._committer.forget(table, files)


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
