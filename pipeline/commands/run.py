"""`millrace run`: the job."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pipeline.commands.options import Config, Set, chosen


def command(
    ready_file: Annotated[
        Path | None, typer.Option(help="Written when the job runs, gone when it ends: where its metrics are, as JSON.")
    ] = None,
    config: Config = None,
    set_: Set = None,
) -> None:
    """Run the job: Kafka topics -> parse -> enrich -> Delta."""
    from pipeline.driver import job
    from pipeline.watch import logs

    logs.to_stderr()
    job.run(chosen(config, set_), ready_file)
