"""`millrace sql`: tables of your own in the embedded database."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pipeline.commands.options import FOLDER, Folder
from pipeline.errors import BadSetting


def command(
    file: Annotated[Path, typer.Argument(help="Statements, each ended with a semicolon.")],
    folder: Folder = FOLDER,
) -> None:
    """Run SQL in the embedded database, as its owner: master tables of your own, without a client of MySQL."""
    from pipeline.laptop.stack.stack import Stack

    try:
        script = file.read_text("utf-8")
    except (OSError, ValueError) as error:
        raise BadSetting(
            f"{file} cannot be read as UTF-8 text: {getattr(error, 'strerror', None) or error}."
        ) from error
    tables = Stack(folder).database.run_script(script)
    print(f"tables    {', '.join(tables)}")
