"""`millrace why`: one message, and what became of it."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from pipeline.commands.options import Config, Set, chosen


def command(
    topic: Annotated[str, typer.Argument(help="The message's topic.")],
    partition: Annotated[int, typer.Argument(min=0, help="Its partition.")],
    offset: Annotated[int, typer.Argument(min=0, help="Its offset.")],
    config: Config = None,
    set_: Set = None,
) -> None:
    """Tell what became of one message: its fact or reject, its batch, the master rows then and now. Exit code 1 if it
    is in no table."""
    from pipeline.plan import resolve
    from pipeline.reconcile.broker import Place
    from pipeline.reconcile.why import why

    told = why(resolve(chosen(config, set_)), Place(topic, partition), offset)
    print(told)
    sys.exit(0 if told.is_there else 1)
