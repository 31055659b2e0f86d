"""`millrace explain`: the plan, and what would become of it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Annotated

import typer

from pipeline.commands.options import Config, Set, chosen


def command(
    rate: Annotated[float, typer.Option(min=1, help="Sales a second to be ready for.")] = 10_000,
    offline: Annotated[bool, typer.Option("--offline", help="Only the plan; read no table's size.")] = False,
    config: Config = None,
    set_: Set = None,
) -> None:
    """Print the plan, what every join would do on your tables, and whether `run` would start. Changes nothing.

    Exit code 2 if `run` would refuse.
    """
    from pipeline.advise import compare, words
    from pipeline.advise.demand import Demand, Way
    from pipeline.plan import resolve
    from pipeline.watch.scrape import of_settings

    plan = resolve(chosen(config, set_))
    print(words.of(plan), end="", flush=True)
    if offline:
        print("verdict      none: with --offline neither Kafka nor the database is asked")
        return
    demand = Demand.of(plan, rate, Way.of_job(*of_settings(plan.settings.metrics)))
    plan = replace(plan, workers=demand.workers)
    with _progress() as say:
        looked = compare.look(plan, demand, say)
        for line in compare.comparison(plan, looked, demand, say):
            print(line, flush=True)
    sys.exit(2 if looked.refusals else 0)


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """What is being done, on stderr: in place on a terminal, else a line each."""
    from rich.console import Console

    console = Console(stderr=True)
    if console.is_terminal and sys.stdout.isatty():
        with console.status("") as status:
            yield lambda doing: status.update(doing)
    else:
        yield lambda doing: print(doing, file=sys.stderr, flush=True)
