"""Where messages re-enter the tables: a piece at a time, each one commit that is refused if another came between."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeVar
from urllib.parse import urlsplit

import pyarrow as pa

from pipeline import columns
from pipeline.answers.task import TaskAnswer
from pipeline.config.contracts import TableContract
from pipeline.driver import worker
from pipeline.errors import WarehouseRefused
from pipeline.news import News
from pipeline.plan import Plan
from pipeline.reentry.record import Reentry, application_of
from pipeline.reentry.seen import IDENTITY, Seen, require
from pipeline.warehouse import features, storage, tables
from pipeline.warehouse.arrow import ArrowCommitter
from pipeline.warehouse.committer import AlreadyCommitted
from pipeline.warehouse.log import TableLog
from pipeline.warehouse.port import Batch
from pipeline.warehouse.warehouse import TwoStepWarehouse

T = TypeVar("T")

_ATTEMPTS = 10


@dataclass(frozen=True)
class Turn:
    """The next commit's number, and the tables read after it was taken."""

    number: int
    facts: Seen
    rejects: Seen


class Entrance:
    """Both tables of a job, for messages that come later."""

    def __init__(self, plan: Plan, dry_run: bool, job_is_stopped: bool) -> None:
        _refuse_beside_spark_on_s3(plan, job_is_stopped or dry_run)
        # Files go where they stay, whatever the job's own writer does: they are committed by deltalake.
        warehouse = replace(plan.settings.warehouse, writer="arrow")
        self.plan = replace(plan, settings=replace(plan.settings, warehouse=warehouse))
        self.job = plan.settings.job.name
        require(plan.facts, IDENTITY)
        require(plan.rejects, IDENTITY)
        self.facts_log, self.rejects_log = (opened(plan, contract) for contract in (plan.facts, plan.rejects))
        self._warehouse = TwoStepWarehouse(
            warehouse,
            plan.facts,
            [plan.rejects],
            application_of(self.job),
            None,  # type: ignore[arg-type] # Spark would add columns: `opened` has refused tables that lack any
            ArrowCommitter(),
        )
        if not dry_run:
            self._warehouse.prepare()  # completes what another process, killed since, had begun to enter

    def turn(self) -> Turn:
        number = (self._warehouse.last_batch() or 0) + 1
        # The facts first: what the job has committed of a batch by then, it has by the rejects' log or not.
        self.facts_log.refresh()
        self.rejects_log.refresh()
        return Turn(
            number,
            Seen(self.facts_log, self.plan.facts, self.job),
            Seen(self.rejects_log, self.plan.rejects, self.job),
        )

    def walk(self, turn: Turn, messages: pa.Table) -> TaskAnswer:
        """Take messages, by the names of the journey, to files that nobody sees yet."""
        named = messages.select([*columns.MESSAGE]).rename_columns(columns.KAFKA.names)
        return worker.flow(self.plan, -turn.number, News()).run(named.to_batches())

    def enter(self, turn: Turn, answer: TaskAnswer, noted: Reentry, with_rejects: bool) -> None:
        """Commit them. Raises `AlreadyCommitted` if others have entered since the turn was taken."""
        sides = {self.plan.rejects.name: answer.rejects} if with_rejects else {}
        self._warehouse.commit(Batch(turn.number, answer.facts, sides, noted.as_note()))


@contextmanager
def entrance(plan: Plan, dry_run: bool, job_is_stopped: bool) -> Iterator[Entrance]:
    """With joins and connections of this process, which end with it."""
    try:
        yield Entrance(plan, dry_run, job_is_stopped)
    finally:
        worker.forget()


def again(step: Callable[[], T]) -> T:
    """What others came between begins anew, on what is there now."""
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return step()
        except AlreadyCommitted as error:
            if attempt == _ATTEMPTS:
                raise WarehouseRefused(
                    f"others kept entering messages into the same tables, {_ATTEMPTS} times: {error} What was "
                    f"committed stays; run it again when they are done."
                ) from error
    raise AssertionError("the last attempt returns or raises")


def opened(plan: Plan, contract: TableContract) -> TableLog:
    """A table's log. Refuses a table that is not there, or that `deltalake` must not write or cannot read."""
    uri, options = storage.table_uri(plan.settings.warehouse, contract.name), plan.settings.warehouse.storage_options
    log = TableLog.existing(uri, options)
    found = log.describe()
    if missing := tables.check(found, contract, uri):
        raise WarehouseRefused(
            f"{uri} has no column {', '.join(column.name for column in missing)}, which the contract of "
            f"{contract.name} names. Run the job once: it adds them."
        )
    features.refuse_what_arrow_cannot_honour(found, contract, uri)
    if "deletionVectors" in found.features:
        raise WarehouseRefused(
            f"{uri}: the table may have deletion vectors, which deltalake does not read, so it is not known which "
            f"messages are in it. Drop them: ALTER TABLE … DROP FEATURE deletionVectors."
        )
    return log


def _refuse_beside_spark_on_s3(plan: Plan, job_is_stopped: bool) -> None:
    warehouse = plan.settings.warehouse
    if urlsplit(warehouse.path).scheme in ("s3", "s3a") and warehouse.writer == "spark" and not job_is_stopped:
        raise WarehouseRefused(
            f"{warehouse.path}: on S3 the commits of warehouse.writer = spark and these would overwrite each other. "
            f"Stop every job that writes the tables, then say so with --job-is-stopped."
        )
