"""One batch, one commit: the facts first, then whatever goes to the side tables.

A batch counts as done when its facts are committed. Their commit carries the side tables' files, so if the driver dies
before those are committed too, the next one completes them from there and computes nothing again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pipeline.config import settings
from pipeline.config.contracts import TableContract
from pipeline.errors import WarehouseRefused
from pipeline.warehouse import disk, partitions, tables
from pipeline.warehouse.arrow import ArrowCommitter
from pipeline.warehouse.committer import AlreadyCommitted, Committer
from pipeline.warehouse.log import TableLog
from pipeline.warehouse.port import Batch, Warehouse
from pipeline.warehouse.record import CommitRecord
from pipeline.warehouse.seen import SeenTables, storage_told
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


class TwoStepWarehouse(SeenTables):
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
        super().__init__(warehouse, facts, sides, application)
        self._spark = spark
        self._committer = committer
        self._tables: dict[str, Table] = {}
        self._newest_of_side: dict[str, int] = {}  # the newest batch that each side table has rows of

    @storage_told
    def take_torn_aside(self) -> None:
        for name in (self._facts.name, *self._sides):
            disk.take_torn_aside(self._uri(name))

    @storage_told
    def prepare(self) -> None:
        for contract in (self._facts, *self._sides.values()):
            self._tables[contract.name] = self._open(contract)
            self._tables[contract.name].log.keep()
        if (last := self._last_record()) is not None:
            self._complete(last)
            self._newest_of_side = {**last.sides_before, **dict.fromkeys(last.sides, last.batch)}
        for table in self._tables.values():
            self._committer.forget_all(table)

    @storage_told
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
        self._facts_table.log.keep()
        self._complete(made)
        self._newest_of_side = self._newest_of_side | dict.fromkeys(made.sides, made.batch)
        self._committer.forget(self._facts_table, batch.facts)
        return version

    @storage_told
    def note_of(self, batch_id: int) -> dict[str, Any] | None:
        made = self._facts_table.log.record_of(self._application, batch_id)
        return made.note if made else None

    @storage_told
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

    def _log_of(self, name: str) -> TableLog | None:
        return self._tables[name].log if name in self._tables else super()._log_of(name)

    def _complete(self, made: CommitRecord) -> None:
        """Commit the batch's part of each side table that does not have it yet."""
        for name, files in made.sides.items():
            if name not in self._tables:
                raise WarehouseRefused(
                    f"batch {made.batch} of {made.application} still has to be committed to {name}, which this job "
                    f"does not write. Start once with the settings of the last run."
                )
            table = self._tables[name]
            table.log.refresh_before_a_commit()
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
                table.log.keep()
            self._committer.forget(table, files)
