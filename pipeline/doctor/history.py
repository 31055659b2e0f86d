"""What `millrace sync` needs: the right to read the log and rows in it, a table of its own, and the log since then."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from pipeline.config.measures import Seconds
from pipeline.doctor.findings import Check, Finding, Patient, ok, warning
from pipeline.doctor.master import SERVER
from pipeline.history import Wishes, chosen, kept
from pipeline.history.dimension import layout_of, require_one_row_a_key
from pipeline.history.table import HistoryTable
from pipeline.master.open import open_images, open_master
from pipeline.warehouse import places

_SHORT = 86_400  # seconds that a log is kept: a sync may stand still over a day


def checks(patient: Patient) -> list[Check]:
    names = kept(patient.plan)
    return [
        *(Check(f"history {name}", partial(master, name), (SERVER, f"dimension {name}")) for name in names),
        *(Check(f"history table {name}", partial(table, name), (f"history {name}",)) for name in names),
    ]


def master(name: str, patient: Patient) -> Iterator[Finding]:
    """What a sync asks before it begins."""
    chosen(patient.plan, Wishes((name,)))
    contract = patient.plan.dimensions[name]
    with open_master(patient.master, contract) as rows:
        require_one_row_a_key(rows, contract)
    open_images(patient.master, contract).begin()
    yield ok(f"the log tells every change of {contract.table}, with all columns of the row")


def table(name: str, patient: Patient) -> Iterator[Finding]:
    """Whether the next sync goes on in the log, or begins with a snapshot."""
    warehouse = patient.settings.warehouse
    warehouse = replace(warehouse, storage_options=places.soon(warehouse.storage_options))
    found = HistoryTable(layout_of(patient.plan, name), warehouse)
    with places.told(places.tables(patient.settings)):
        said = found.newest() if found.look() else None
    if said is None:
        yield ok(f"{found.uri} does not say up to where it is; the next sync begins with a snapshot")
        return
    log = open_images(patient.master, patient.plan.dimensions[name]).kept(said.upto, said.shape)
    if log.lost:
        yield warning(
            f"{log.lost}: the next sync begins with a new snapshot, and what was between is not known",
            "Let a sync follow (--follow), or run it oftener than the server throws its log away.",
        )
    elif said.is_whole:
        yield ok(f"{found.uri} is told up to {said.place}, and the server still has what comes next")
    else:
        yield ok(f"{found.uri} is in its snapshot, {said.scanned_rows:,} rows read; the next sync goes on there")
    if 0 < log.seconds < _SHORT:
        yield warning(
            f"the server keeps its log for {Seconds(log.seconds)}: after a longer standstill a new snapshot is needed",
            f"SET GLOBAL binlog_expire_logs_seconds = {3 * _SHORT}, or more.",
        )
