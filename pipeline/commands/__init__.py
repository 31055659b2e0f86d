"""What the commands share."""

from pathlib import Path
from typing import Annotated

import typer

Config = Annotated[Path | None, typer.Option("--config", "-c", help="Settings file (TOML); see deploy/reference.toml.")]
Set = Annotated[list[str] | None, typer.Option("--set", "-s", metavar="KEY=VALUE", help="One setting; wins over all.")]
