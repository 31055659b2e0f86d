"""What there is to choose from: settings, contracts, joins."""

from __future__ import annotations

import platform
import shutil
from pathlib import Path
from typing import Annotated

import typer

from pipeline import __version__
from pipeline.config import resources
from pipeline.errors import BadSetting

commands = typer.Typer()


def versions() -> str:
    return f"millrace {__version__} (Python {platform.python_version()})"


@commands.command("settings")
def settings_() -> None:
    """Print every setting with its default and what it does: a settings file to start from."""
    print(resources.deployed("reference.toml").read_text("utf-8"), end="")


@commands.command()
def contracts(
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


@commands.command()
def joins() -> None:
    """List the joins that can be set, one a line."""
    from pipeline.joins import JOINS

    print("\n".join(JOINS))
