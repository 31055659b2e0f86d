"""`millrace top`: the live panel."""

from __future__ import annotations

from typing import Annotated

import typer

from pipeline.commands.options import Config, Set, chosen


def command(
    endpoint: Annotated[str, typer.Option(help="The job's metrics endpoint.")] = "",
    wait: Annotated[bool, typer.Option("--wait", help="For a job that is not there yet, or comes back.")] = False,
    config: Config = None,
    set_: Set = None,
) -> None:
    """The live panel of a running job, from its metrics endpoint. Ends when there is no job (any more): exit code 2."""
    from pipeline.watch.panel import Panel
    from pipeline.watch.scrape import of_settings

    url, access = of_settings(chosen(config, set_).metrics, endpoint)
    try:
        Panel(url, access=access).run(until=lambda: False, wait=wait)
    except KeyboardInterrupt:
        return
