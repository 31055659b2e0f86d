"""`millrace sync`: the dimensions' rows as they are, and as they were, in tables of the warehouse."""

from __future__ import annotations

import signal
import threading
from typing import Annotated

import typer

from pipeline.commands.options import Config, Set, chosen
from pipeline.config.measures import Seconds
from pipeline.errors import BadSetting


def command(
    dimension: Annotated[list[str] | None, typer.Option(help="Only this one; may be repeated.")] = None,
    follow: Annotated[
        bool, typer.Option("--follow/--once", help="Go on until SIGTERM; else end when the log's end is reached.")
    ] = False,
    every: Annotated[str, typer.Option(help="With --follow, how often changes are committed.")] = "10 s",
    config: Config = None,
    set_: Set = None,
) -> None:
    """Keep the dimensions' history (dim_<name>) from a snapshot of the master and its binary log, exactly once."""
    from pipeline.history import Wishes, sync
    from pipeline.plan import resolve
    from pipeline.warehouse import places
    from pipeline.watch import logs

    logs.to_stderr()
    wishes = Wishes(tuple(dimension or ()), follow, _period(every))
    plan = resolve(chosen(config, set_))
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT) if follow else ():
        signal.signal(number, lambda *_: stop.set())
    with places.told(places.tables(plan.settings)):
        sync(plan, wishes, stop, say=lambda line: print(line, flush=True))


def _period(text: str) -> Seconds:
    try:
        return Seconds.parse(text)
    except ValueError:
        raise BadSetting(f"--every {text!r} must be a duration such as 500 ms or 10 s.") from None
