"""What the demo shows when it is over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from rich.console import Console
from rich.table import Table

from pipeline import columns
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
    table = Table(title="Ten enriched sales", title_justify="left")
    table.add_column("sale")
    for dimension in plan.dimensions:
        table.add_column(dimension)
    table.add_column("quantity and price", justify="right")
    for row in rows:
        of = {source: str(row[column.name]) for source, column in plan.facts.by_source.items()}
        cells = [of[columns.of_sale("sale_id")]]
        for name, contract in plan.dimensions.items():
            key = ", ".join(of[columns.of_sale(k.field)] for k in contract.natural_key)
            added = [columns.of_dimension(name, attribute) for attribute in contract.attributes]
            attributes = ", ".join(of[column] for column in added if column in of)
            cells.append(f"{key} -> {of[columns.of_dimension(name, columns.SURROGATE_KEY)]} ({attributes})")
        quantity, price, currency = (of[columns.of_sale(field)] for field in ("quantity", "unit_price", "currency"))
        table.add_row(*cells, f"{quantity} x {price} {currency}")
    return table
