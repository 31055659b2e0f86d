"""`millrace status`: one look at a running job."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from pipeline.commands.options import Config, Set, chosen


def command(
    endpoint: Annotated[str, typer.Option(help="The job's metrics endpoint.")] = "",
    json: Annotated[bool, typer.Option("--json", help="As one JSON object.")] = False,
    over: Annotated[
        float | None,
        typer.Option(min=0, help="Look twice, so many seconds apart. Without it: the job's own last minute, at once."),
    ] = None,
    config: Config = None,
    set_: Set = None,
) -> None:
    """Say once how a running job does. Exit code 0: it is ready; 1: it is still starting; 2: there is none."""
    from json import dumps

    from rich.console import Console

    from pipeline.watch import status
    from pipeline.watch.panel import Panel
    from pipeline.watch.scrape import of_settings

    url, access = of_settings(chosen(config, set_).metrics, endpoint)
    seen = status.look(url, over, access)
    if json:
        print(dumps(status.as_data(seen, url), indent=2))
    else:
        Console().print(Panel(url).render(seen))
    sys.exit(0 if seen.ready else 1)
