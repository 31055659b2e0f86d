"""What the demo shows when it is over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from rich.console import Console
from rich.table import Table

from pipeline.plan import Plan
from pipeline.reconcile import Verdict
from pipeline.warehouse.storage import table_uri

_WITHOUT_TERMINAL = 160  # columns


def show(plan: Plan, verdict: Verdict, settings_file: Path) -> None:
    """The verdict, ten rows, and where to look further."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=_WITHOUT_TERMINAL)
    console.print(verdict)
    facts = table_uri(plan.settings.warehouse, plan.facts.name)
    rows = DeltaTable(facts).to_pyarrow_dataset().head(10).to_pylist()
    console.print(_enriched(plan, rows))
    console.print(
        f"facts    {facts}\nrejects  {table_uri(plan.settings.warehouse, plan.rejects.name)}\n"
        f"settings {settings_file}\n"
        f"Look further with any reader of Delta tables, for example:\n"
        f"  python -c \"from deltalake import DeltaTable; print(DeltaTable('{facts}').to_pandas())\"",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )


def _enriched(plan: Plan, rows: list[dict[str, Any]]) -> Table:
    """Sales beside what the job added to them: each dimension as natural key -> surrogate key (attributes)."""
    names = {column.source: column.name for column in plan.facts.columns}
    table = Table(title="Ten enriched sales", title_justify="left")
    table.add_column("sale")
    for dimension in plan.dimensions:
        table.add_column(dimension)
    table.add_column("quantity and price", justify="right")
    for row in rows:
        cells = [str(row[names["sale.sale_id"]])]
        for name, contract in plan.dimensions.items():
            key = ", ".join(str(row[names[f"sale.{k.field}"]]) for k in contract.natural_key)
            attributes = ", ".join(
                str(row[names[f"{name}.{a}"]]) for a in contract.attributes if f"{name}.{a}" in names
            )
            cells.append(f"{key} -> {row[names[f'{name}.surrogate_key']]} ({attributes})")
        table.add_row(*cells, f"{row['quantity']} x {row['unit_price']} {row['currency']}")
    return table
