"""`millrace seed`: rows of the embedded master tables."""

from __future__ import annotations

from typing import Annotated

import typer

from pipeline.commands.options import FOLDER, Folder


def command(
    products: Annotated[int, typer.Option(min=1)] = 2_000_000,
    customers: Annotated[int, typer.Option(min=1)] = 200_000,
    stores: Annotated[int, typer.Option(min=1)] = 500,
    replace: Annotated[bool, typer.Option("--replace", help="Empty tables that have rows.")] = False,
    folder: Folder = FOLDER,
) -> None:
    """Fill the embedded database's master tables with rows in bulk."""
    from pipeline.generate.keys import Sizes
    from pipeline.generate.seed import seed
    from pipeline.laptop.stack.stack import Stack

    with Stack(folder).database.connect("owner") as connection:
        for table in seed(connection, Sizes(products, customers, stores), replace=replace):
            print(f"{table.table}: {table.rows:,} rows in {table.seconds:.1f} s")
