"""Inferred members: a placeholder master row for each natural key that facts have and the master lacks.

The repair that follows heals the facts by them, as by any row that came late; so does a job that heals. When the owner
of the master learns of the key, the real row is an update of the placeholder. What is inserted is noted first, in the
table `inferred_members`: no row is in the master that is not there, whenever this ends.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import write_deltalake

from pipeline import columns, keys
from pipeline.config.contracts import DimensionContract, TableColumn, TableContract
from pipeline.errors import BadContract, BadSetting
from pipeline.master.open import open_master, open_placeholders
from pipeline.master.placeholders import Outcome, Placeholders
from pipeline.master.port import KEY, MasterTable
from pipeline.plan import Plan
from pipeline.repair.allowance import Allowance
from pipeline.repair.census import packed_keys
from pipeline.repair.unknown import UnknownFacts, is_unknown
from pipeline.warehouse import storage, tables
from pipeline.warehouse.log import TableLog

_AT_ONCE = 500  # keys noted in one commit
_MOST_REFUSED = 1_000  # of one dimension: then it is not the keys that are wrong
_LOOKS = 0.2  # seconds until it is looked again whether another row may be inserted
NOTED = TableContract(
    "inferred_members",
    (
        TableColumn("dimension", pa.string(), "inferred.dimension", "Whose member"),
        TableColumn("natural_key", pa.string(), "inferred.natural_key", "Its parts as JSON, in the contract's order"),
        TableColumn("inferred_at", pa.timestamp("us", tz="UTC"), "inferred.at", "Just before the row was inserted"),
        TableColumn("application", pa.string(), "inferred.application", "job.name"),
    ),
    (),
)


def infer(
    plan: Plan, log: TableLog, contracts: Sequence[DimensionContract], since: datetime | None, dry_run: bool
) -> Iterator[str]:
    """A line for each dimension whose contract has placeholders."""
    able = [contract for contract in contracts if contract.inferred is not None]
    if not able:
        raise BadContract(
            "--infer: no dimension's contract has a table [inferred], which says what a placeholder row has in its "
            'columns. Add it, such as name = "not known yet".'
        )
    require_account(plan)
    before = datetime.now(timezone.utc) - timedelta(seconds=plan.settings.inferred.after)
    for contract in able:
        with open_master(plan.settings.master, contract) as master:
            require_one_row_a_key(contract, master)
            with open_placeholders(plan.settings.master, plan.settings.inferred, contract) as placeholders:
                run = _Run(plan, contract, master, placeholders)
                for window in UnknownFacts(log, plan.facts, [contract], since).windows(
                    plan.settings.worker.window_sales
                ):
                    old = pc.less(window[columns.TIMESTAMP], pa.scalar(before, pa.timestamp("us", "UTC")))
                    unknown = window.filter(pc.and_(old, pa.array(is_unknown(window, contract))))
                    run.take(run.lacking(unknown), dry_run)
                yield run.told(dry_run)


def require_account(plan: Plan) -> None:
    """Refuse where nobody but the job's own account could insert."""
    inferred = plan.settings.inferred
    if not inferred.user or inferred.user == plan.settings.master.user:
        raise BadSetting(
            f"inferred.user = {inferred.user!r} must name an account that may insert placeholder rows, and not "
            f"master.user, which reads: set inferred.user and inferred.password_file.",
            about=["inferred.user"],
        )


def require_one_row_a_key(contract: DimensionContract, master: MasterTable) -> None:
    """Refuse a table in which a key may have several rows."""
    if contract.validity is not None:
        raise BadContract(
            f"dimension {contract.name}: {contract.table} keeps a row for each time, and from when on a placeholder "
            f"would be valid nobody knows. Leave [inferred] out of its contract."
        )
    if not master.unique:
        raise BadContract(
            f"dimension {contract.name}: {contract.table} has no unique index on its natural key, so one key might get "
            f"several placeholder rows. Add the index, or leave [inferred] out of its contract."
        )


class _Run:
    """Of one dimension."""

    def __init__(self, plan: Plan, contract: DimensionContract, master: MasterTable, into: Placeholders) -> None:
        self._plan, self._contract, self._master, self._into = plan, contract, master, into
        self._allowance = Allowance(plan.settings.inferred.rows_per_minute)
        self._counts: Counter[Outcome] = Counter()
        self._refused: dict[Any, str] = {}  # by key
        self._seen: set[int] = set()  # hashes of the keys that a dry run has counted

    def lacking(self, unknown: pa.Table) -> pa.Array:
        """The keys of these facts that no master row has, each once."""
        wanted = pc.unique(packed_keys(unknown, self._contract))
        there = self._master.lookup(wanted)[KEY] if len(wanted) else pa.array([], wanted.type)
        return wanted.filter(pc.invert(pc.is_in(wanted, value_set=there.cast(wanted.type))))

    def take(self, lacking: pa.Array, dry_run: bool) -> None:
        if dry_run:
            self._seen.update(map(hash, lacking.to_pylist()))
            return
        new = lacking.filter(pa.array([key not in self._refused for key in lacking.to_pylist()], pa.bool_()))
        for first in range(0, len(new), _AT_ONCE):
            some = new.slice(first, _AT_ONCE)
            parts = keys.unpack(some, [part.type for part in self._contract.natural_key])
            rows = list(zip(*(part.to_pylist() for part in parts), strict=True))
            self._note(rows)
            for packed, row in zip(some.to_pylist(), rows, strict=True):
                self._insert(packed, row)

    def told(self, dry_run: bool) -> str:
        name, table = self._contract.name, self._contract.table
        if dry_run:
            return f"{name}: {len(self._seen):,} keys have no row in {table}; placeholder rows could be inserted"
        line = f"{name}: {self._counts[Outcome.INSERTED]:,} placeholder rows inserted into {table}"
        if there := self._counts[Outcome.THERE]:
            line += f", {there:,} keys have a row there that the server takes for theirs"
        if self._refused:
            line += (
                f", {len(self._refused):,} refused by the server, the first one: {next(iter(self._refused.values()))}"
            )
        return line

    def _insert(self, packed: Any, row: Sequence[Any]) -> None:
        while not self._allowance.left():
            time.sleep(_LOOKS)
        self._allowance.spend(1)
        inserted = self._into.insert(row)
        self._counts[inserted.outcome] += 1
        if inserted.outcome is not Outcome.INSERTED:
            self._refused[packed] = inserted.why
        if len(self._refused) > _MOST_REFUSED:
            raise BadContract(f"dimension {self._contract.name}: {self.told(dry_run=False)}. Mend [inferred].")

    def _note(self, rows: Sequence[Sequence[Any]]) -> None:
        warehouse = self._plan.settings.warehouse
        uri = storage.table_uri(warehouse, NOTED.name)
        table, _ = tables.open_table(uri, NOTED, warehouse.storage_options)
        said = [json.dumps(row, ensure_ascii=False, default=bytes.hex) for row in rows]
        constant = [self._contract.name, datetime.now(timezone.utc), self._plan.settings.job.name]
        of, at, application = (pa.repeat(pa.scalar(value), len(said)) for value in constant)
        found = pa.table(
            [of, pa.array(said), at.cast(NOTED.schema.field("inferred_at").type), application], NOTED.schema
        )
        write_deltalake(table.log.table, found, mode="append")
        table.log.refresh()
        table.log.keep()
