"""Keeps the warehouse tables quick and small: merges small files, drops old files and log entries.

Three steps for each table, in this order. OPTIMIZE merges the small files of closed days (a commit looks at the list of
all live files). A checkpoint of the log lets expired entries go. VACUUM deletes files that have
not been part of the table for longer than the retention, and those that killed tasks left behind.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timezone
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow import fs

from pipeline.config.contracts import TableContract
from pipeline.errors import BadSetting, WarehouseRefused
from pipeline.plan import Plan
from pipeline.warehouse import record, storage
from pipeline.warehouse.log import TableLog
from pipeline.warehouse.tables import quoted
from pipeline.warehouse.wishes import SAFE_RETENTION_HOURS, Wishes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MANY_COMMITS = 256
_SPARK_CONF = {
    # Listing a table takes 10 000 tasks otherwise: minutes for a table of a few files.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "8",
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",  # checked here, table by table
    # Delta takes no notice of the hours that VACUUM is told otherwise: only of none.
    "spark.databricks.delta.vacuum.retentionWindowIgnore.enabled": "false",
}
_HOURS = {"hour": 1, "day": 24, "week": 168}


@dataclass(frozen=True)
class SmallFiles:
    """The files of one closed partition that are worth merging."""

    files: int
    bytes: int

    def merged(self, target: int) -> int:
        return math.ceil(self.bytes / target)


def maintain(
    spark: SparkSession,
    plan: Plan,
    wishes: Wishes,
    say: Callable[[str], None] = print,
    histories: Sequence[TableContract] = (),
) -> None:
    """Do, or with `dry_run` only tell, what each table needs."""
    contracts = [plan.facts, plan.rejects, *histories]
    if unknown := wishes.forced - {contract.name for contract in contracts}:
        raise BadSetting(f"{sorted(unknown)} are no tables of this warehouse: {', '.join(c.name for c in contracts)}.")
    warehouse = plan.settings.warehouse
    logs = {
        contract.name: TableLog(uri, warehouse.storage_options)
        for contract in contracts
        if TableLog.exists(uri := storage.table_uri(warehouse, contract.name), warehouse.storage_options)
    }
    for contract in contracts:
        if contract.name not in logs:
            say(f"{contract.name}: there is no such table yet, nothing to do")
            continue
        refuse_what_is_not_safe(contract, logs, plan, wishes)
    for name, value in _SPARK_CONF.items():
        spark.conf.set(name, value)
    for contract in contracts:
        if contract.name in logs:
            for line in _Table(spark, contract, logs[contract.name], plan, wishes).steps():
                say(f"{contract.name}: {'would ' if wishes.dry_run else ''}{line}")


def refuse_what_is_not_safe(contract: TableContract, logs: dict[str, TableLog], plan: Plan, wishes: Wishes) -> None:
    uri = logs[contract.name].uri
    # deltalake commits with S3's conditional put, Delta on Spark does not: one would overwrite the other's commit.
    if urlsplit(uri).scheme in ("s3", "s3a") and not (wishes.job_is_stopped or wishes.dry_run):
        raise WarehouseRefused(
            f"{uri}: on S3 Spark must be the only one that commits. Stop every job that writes the table, then say so "
            f"with --job-is-stopped."
        )
    too_early = "vacuum" in wishes.steps and wishes.retain_hours < SAFE_RETENTION_HOURS
    if too_early and contract.name not in wishes.forced:
        raise WarehouseRefused(
            f"{contract.name}: a retention of {wishes.retain_hours} h is below the {SAFE_RETENTION_HOURS} h that "
            f"protect running readers, time travel and files a job is just writing. Raise --retain-hours, or force "
            f"this table by its name: --force {contract.name}."
        )
    if contract is plan.facts:
        _refuse_half_committed(logs, plan)


def _refuse_half_committed(logs: dict[str, TableLog], plan: Plan) -> None:
    """A batch whose side tables still wait: its files are in no log yet, and its commit must stay in the facts' log."""
    facts = logs[plan.facts.name]
    own = facts.last_batch(plan.settings.job.name)
    newest = {} if own is None else {plan.settings.job.name: facts.record_of(plan.settings.job.name, own)}
    for commit in facts.table.history(_MANY_COMMITS):
        if said := record.decode(commit.get(record.USER_METADATA)):
            newest.setdefault(said.application, said)
    for made in filter(None, newest.values()):
        for side in made.sides:
            done = logs[side].last_batch(made.application) if side in logs else None
            if done is None or done < made.batch:
                raise WarehouseRefused(
                    f"{facts.uri}: batch {made.batch} of {made.application} still has to be committed to {side}. "
                    f"Start that job once (or, of a re-entry, run `millrace backfill` again), which does it; then "
                    f"maintain the tables."
                )


class _Table:
    """The steps for one table; each yields lines that say what it does."""

    def __init__(self, spark: SparkSession, contract: TableContract, log: TableLog, plan: Plan, wishes: Wishes) -> None:
        self._spark, self._contract, self._log, self._wishes = spark, contract, log, wishes
        self._storage_options = plan.settings.warehouse.storage_options
        self._name = f"delta.{quoted(log.uri)}"
        self._day = _day_of(contract)
        self._today = wishes.today or datetime.now(timezone.utc).date()

    def steps(self) -> Iterator[str]:
        for step, does in (("optimize", self._optimize), ("log", self._shorten_log), ("vacuum", self._vacuum)):
            if step in self._wishes.steps:
                yield from does()
        if not self._wishes.dry_run:
            self._log.refresh()
            self._log.keep()

    def _optimize(self) -> Iterator[str]:
        self._log.refresh()
        found = small_files(self._log, self._contract, self._wishes.target, self._today)
        files, after = sum(p.files for p in found), sum(p.merged(self._wishes.target) for p in found)
        what = f"merge {files:,} small files of {len(found)} closed partitions into about {after:,}"
        if not found or self._wishes.dry_run:
            yield what if found else "merge nothing: no closed partition has two small files"
            return
        for conf in ("minFileSize", "maxFileSize"):
            self._spark.conf.set(f"spark.databricks.delta.optimize.{conf}", int(self._wishes.target))
        closed = f" WHERE {quoted(self._day)} < DATE'{self._today}'" if self._day else ""
        done = self._spark.sql(f"OPTIMIZE {self._name}{closed}").collect()[0].metrics
        yield f"{what}: {done.numFilesRemoved:,} became {done.numFilesAdded:,}"

    def _shorten_log(self) -> Iterator[str]:
        self._log.refresh()
        hours = _interval_hours(self._log.describe().properties.get("delta.logRetentionDuration", "interval 30 days"))
        expired = len(self._expired(hours))
        what = f"write a checkpoint of version {self._log.table.version():,} and drop {expired:,} log entries"
        if not self._wishes.dry_run:
            self._log.table.create_checkpoint()
            self._log.table.cleanup_metadata()
            expired -= len(self._expired(hours))
            what += f": {expired:,} dropped"
        yield f"{what} (older than {hours} h)"

    def _expired(self, hours: int) -> Sequence[str]:
        folder = storage.filesystem(self._log.uri, self._storage_options)
        entries = folder.get_file_info(fs.FileSelector("_delta_log"))
        before = time.time() - hours * 3600
        return [e.path for e in entries if re.fullmatch(r"\d{20}\.json", e.base_name) and e.mtime.timestamp() < before]

    def _vacuum(self) -> Iterator[str]:
        hours = self._wishes.retain_hours
        vacuum = f"VACUUM {self._name} RETAIN {hours} HOURS"
        if self._wishes.dry_run:
            listed = self._spark.sql(f"{vacuum} DRY RUN").collect()
            more = " or more" if len(listed) >= 1000 else ""  # Delta lists no more than a thousand
            yield f"delete {len(listed):,}{more} files that left the table more than {hours} h ago"
            yield from (f"delete {row.path}" for row in listed)
            return
        self._spark.sql(vacuum)
        yield f"delete the files that left the table more than {hours} h ago: done"


def small_files(log: TableLog, contract: TableContract, target: int, today: date) -> list[SmallFiles]:
    """For each closed partition with two or more of them. Without days every partition is taken for closed."""
    files = pa.table(log.table.get_add_actions(flatten=True))
    partition, by_day = [f"partition.{name}" for name in contract.partition_by], _day_of(contract)
    grouped: dict[tuple[object, ...], list[int]] = {}
    for row in files.select([*partition, "size_bytes"]).to_pylist():
        day = row.get(f"partition.{by_day}")
        closed = by_day is None or (day is not None and day < today)
        if closed and row["size_bytes"] < target:
            grouped.setdefault(tuple(row[name] for name in partition), []).append(row["size_bytes"])
    return [SmallFiles(len(sizes), sum(sizes)) for sizes in grouped.values() if len(sizes) > 1]


def _day_of(contract: TableContract) -> str | None:
    return next((c.name for c in contract.columns if c.name in contract.partition_by and _is_day(c.type)), None)


def _is_day(kind: pa.DataType) -> bool:
    return bool(pa.types.is_date(kind))


def _interval_hours(text: str) -> int:
    """Delta's way of writing a duration.

    >>> _interval_hours("interval 7 days"), _interval_hours("interval 2 weeks")
    (168, 336)
    """
    found = re.fullmatch(r"(?:interval\s+)?(\d+)\s+(hour|day|week)s?", text.strip().lower())
    if not found:
        raise WarehouseRefused(f"delta.logRetentionDuration = {text!r}: write it as `interval 7 days`.")
    return int(found[1]) * _HOURS[found[2]]
