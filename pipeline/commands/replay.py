"""`millrace replay`: a batch is computed again, and held against the tables."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from pipeline.commands.options import Config, Set, chosen


def command(
    batch: Annotated[
        int, typer.Option(min=0, help="The batch, as `millrace why` and the facts' column `batch` say it.")
    ],
    as_of: Annotated[
        str,
        typer.Option(
            help="The master as of a moment (2026-11-19T08:00:00Z) or a place in its log; else as of the batch."
        ),
    ] = "",
    dimension: Annotated[list[str] | None, typer.Option(help="Only this one; may be repeated.")] = None,
    limit: Annotated[int, typer.Option(metavar="ROWS", help="Name at most so many differences.")] = 100,
    as_json: Annotated[bool, typer.Option("--json", help="For scripts.")] = False,
    config: Config = None,
    set_: Set = None,
) -> None:
    """Compute a batch again, from Kafka and the master's history (dim_<name>), and prove it equal, bit for bit. Exit
    code 1 if a fact differs, or Kafka has not all messages any more."""
    from pipeline.plan import resolve
    from pipeline.replay import Wishes, replay
    from pipeline.warehouse import places

    wishes = Wishes(batch, as_of, tuple(dimension or ()), limit)
    plan = resolve(chosen(config, set_))
    with places.told(places.tables(plan.settings)):
        verdict = replay(plan, wishes)
    print(json.dumps(verdict.as_json()) if as_json else verdict)
    sys.exit(0 if verdict.ok else 1)
