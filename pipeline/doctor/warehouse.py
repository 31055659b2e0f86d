"""The Delta tables, by their logs: whether the writer may append to them, and how many small files they have."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from functools import partial

from pipeline.config.contracts import TableContract
from pipeline.doctor.findings import Check, Finding, Patient, ok, warning
from pipeline.warehouse import features, maintain, partitions, places, storage, tables
from pipeline.warehouse.log import TableLog
from pipeline.warehouse.wishes import Wishes

_MANY = 1_000  # small files: a commit looks at all live files


def checks(patient: Patient) -> list[Check]:
    written = (patient.plan.facts, patient.plan.rejects)
    return [
        *(Check(f"table {contract.name}", partial(table, contract)) for contract in written),
        *(
            Check(f"files {contract.name}", partial(files, contract), (f"table {contract.name}",))
            for contract in written
        ),
    ]


def table(contract: TableContract, patient: Patient) -> Iterator[Finding]:
    """By the functions that a start asks; the table is not made, and no column is added."""
    warehouse = patient.settings.warehouse
    uri, options = storage.table_uri(warehouse, contract.name), places.soon(warehouse.storage_options)
    partitions.check(contract)
    with places.told(places.tables(patient.settings)):
        if not TableLog.exists(uri, options):
            tables.refuse_unmakeable(uri, contract, options)
            yield ok(f"{uri} is not there yet; the first start makes it")
            return
        log = TableLog(uri, options)
        found = log.describe()
        missing = tables.check(found, contract, uri)
        if warehouse.writer == "arrow":
            features.refuse_what_arrow_cannot_honour(found, contract, uri)
    yield ok(f"{uri} is as its contract says, in version {log.version():,}; the {warehouse.writer} writer can append")
    if missing:
        yield ok(f"the next start adds {', '.join(column.name for column in missing)} to {uri}")


def files(contract: TableContract, patient: Patient) -> Iterator[Finding]:
    warehouse = patient.settings.warehouse
    uri, options = storage.table_uri(warehouse, contract.name), places.soon(warehouse.storage_options)
    with places.told(places.tables(patient.settings)):
        if not TableLog.exists(uri, options):
            yield ok("none yet")
            return
        small = maintain.small_files(TableLog(uri, options), contract, Wishes.target, datetime.now(timezone.utc).date())
    count, merged = sum(part.files for part in small), sum(part.merged(Wishes.target) for part in small)
    if count > _MANY:
        yield warning(
            f"{count:,} small files lie in closed partitions, where {merged:,} would do: each makes a commit slower",
            "`millrace maintain --step optimize` merges them.",
        )
    else:
        yield ok(f"{count:,} small files in closed partitions")
