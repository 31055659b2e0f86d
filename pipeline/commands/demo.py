"""`millrace demo`: everything at once."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from pipeline.commands.options import FOLDER, Folder


def command(
    seconds: Annotated[int, typer.Option(min=1, help="How long sales flow.")] = 60,
    rate: Annotated[int, typer.Option(min=1, help="Mean sales a second, in bursts.")] = 5_000,
    folder: Folder = FOLDER,
) -> None:
    """See it all: embedded stack, master data, bursty sales, the job, a live panel, and the proof that it adds up."""
    from pipeline.laptop import demo

    sys.exit(demo.demo(folder=folder, seconds=seconds, rate=rate))
