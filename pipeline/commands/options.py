"""The options that commands share: which settings they go by, and where the embedded stack is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from pipeline.config.settings import Settings

Config = Annotated[
    Path | None, typer.Option("--config", "-c", help="Settings file (TOML); `millrace settings` prints a full one.")
]
Folder = Annotated[Path, typer.Option(help="Where the embedded stack keeps data and logs.")]
FOLDER = Path(".millrace")
Set = Annotated[list[str] | None, typer.Option("--set", "-s", metavar="KEY=VALUE", help="One setting; wins over all.")]


@dataclass
class Before:
    """What stood before the command's name: `millrace --config my.toml run`."""

    config: Path | None = None
    assignments: Sequence[str] = ()


before = Before()


def chosen(config: Path | None, assignments: Sequence[str] | None) -> Settings:
    """The settings by the command line. What stands behind the command's name wins over what stands before it."""
    from pipeline.config import settings

    return settings.load(config or before.config, [*before.assignments, *(assignments or ())])
