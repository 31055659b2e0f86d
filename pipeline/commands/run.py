"""`millrace run`: the job."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from pipeline.commands.options import Config, Set, before, chosen


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
    _warn_of_what_all_can_read([*before.assignments, *(set_ or ())])
    job.run(chosen(config, set_), ready_file)


def _warn_of_what_all_can_read(assignments: Sequence[str]) -> None:
    from pipeline.config.references import is_open_secret

    for assignment in assignments:
        name, _, value = (part.strip() for part in assignment.partition("="))
        if is_open_secret(name, value):
            logging.getLogger("millrace.job").warning(
                "--set %s: every account of this machine can read a command line. A secret belongs into a file "
                "(master.password_file, ${file:…}) or into the environment.",
                name,
            )
