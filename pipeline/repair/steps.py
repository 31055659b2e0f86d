"""The two steps of a healing that touch a server: the master is asked, the table is changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime, timezone

import pyarrow as pa
import pyarrow.compute as pc

from pipeline import columns
from pipeline.config.contracts import DimensionContract
from pipeline.enrich import Dimension
from pipeline.errors import NotUnique
from pipeline.master.open import open_master
from pipeline.master.port import Master
from pipeline.plan import Plan
from pipeline.repair.window import is_known
from pipeline.warehouse import healing
from pipeline.warehouse.log import TableLog
from pipeline.warehouse.record import HealingRecord


def can_be_healed(contract: DimensionContract, master: Master) -> bool:
    """Only where a sale has one row at most: a healing changes facts and adds none."""
    return master.unique or contract.validity is not None


@contextmanager
def opened(plan: Plan, contracts: Sequence[DimensionContract]) -> Iterator[list[Dimension]]:
    """The dimensions with the joins that the settings ask for."""
    with ExitStack() as masters:
        dimensions = []
        for contract in contracts:
            master = masters.enter_context(open_master(plan.settings.master, contract))
            if not can_be_healed(contract, master):
                raise NotUnique(
                    f"dimension {contract.name}: {contract.table} has no unique index on its natural key, so a sale "
                    f"may have several rows there, each of which would be a fact; a repair changes facts and adds "
                    f"none. Add the index, or name the other dimensions with --dimension."
                )
            dimensions.append(Dimension(contract, plan.make_join(contract.name, master)))
        yield dimensions


def commit(
    log: TableLog, plan: Plan, known: pa.Table, dimensions: Sequence[str], place: str | None = None
) -> dict[str, int]:
    """Give the facts their rows, and say when and, where a feed told of the rows, by which place in its log. Returns
    how many facts of each dimension."""
    said = {columns.HEALED_AT: datetime.now(timezone.utc), columns.HEALED_BY: place}
    for name, value in said.items():
        known = known.append_column(name, pa.repeat(pa.scalar(value, columns.FACT[name]), len(known)))
    by_dimension = {name: pc.sum(is_known(known, name)).as_py() for name in dimensions}
    healing.heal(log, plan.facts, known, HealingRecord(plan.settings.job.name, by_dimension, place))
    return by_dimension
