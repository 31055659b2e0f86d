"""`millrace contracts`: those that are shipped."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from pipeline.config import resources
from pipeline.errors import BadSetting


def command(
    copy_to: Annotated[Path | None, typer.Option(help="Copy them into this folder, for contracts.folder.")] = None,
) -> None:
    """List the shipped contracts of topics, dimensions and tables, or copy them into a folder of your own."""
    shipped = resources.schemas()
    files = sorted(file for file in shipped.rglob("*") if file.is_file())
    targets = [copy_to / file.relative_to(shipped) for file in files] if copy_to else []
    if there := [str(target) for target in targets if target.exists()]:
        raise BadSetting(
            f"--copy-to {copy_to}: {', '.join(there)} is there already. Name a new folder, or move it away."
        )
    for file, target in zip(files, targets, strict=False):
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)
    print("\n".join(map(str, targets or files)))
