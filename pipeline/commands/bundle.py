"""`millrace bundle`: what to attach to a question."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pipeline.commands.options import Config, Set, chosen


def command(
    to: Annotated[Path, typer.Argument(help="The archive to write, such as shop.tar.gz.")],
    log: Annotated[
        list[Path] | None, typer.Option(exists=True, dir_okay=False, help="A job's log, its end; may be repeated.")
    ] = None,
    within: Annotated[float, typer.Option(min=0.1, help="Seconds that one answer of a server is waited for.")] = 15.0,
    config: Config = None,
    set_: Set = None,
) -> None:
    """Write settings, plan, doctor's lines, metrics, newest batches, versions, logs to an archive, without secrets."""
    from pipeline.commands.failures import explained
    from pipeline.doctor import bundle
    from pipeline.doctor.examine import examine

    settings = chosen(config, set_)
    examined = list(examine(lambda: settings, within, lambda error: explained(error)[0]))
    for name in bundle.write(to, settings, examined, log or []):
        print(name)
