"""`millrace repair`: facts whose master row came late get it."""

from __future__ import annotations

from typing import Annotated

import typer

from pipeline.commands.options import Config, Set, chosen
from pipeline.config.measures import Seconds
from pipeline.errors import BadSetting


def command(
    dimension: Annotated[list[str] | None, typer.Option(help="Only this one; may be repeated.")] = None,
    limit: Annotated[int | None, typer.Option(metavar="ROWS", help="Heal at most so many facts.")] = None,
    age_limit: Annotated[str, typer.Option(help="Leave facts that are older unknown: 36 h, 30 d.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Tell what would be healed, and do nothing.")] = False,
    infer: Annotated[
        bool, typer.Option("--infer", help="Insert placeholder master rows first, for keys that have none.")
    ] = False,
    job_is_stopped: Annotated[bool, typer.Option("--job-is-stopped", help="Needed on S3 with Spark's writer.")] = False,
    config: Config = None,
    set_: Set = None,
) -> None:
    """Give facts of the unknown member the master rows that have come since, beside the running job."""
    from pipeline.plan import resolve
    from pipeline.repair import Wishes, repair
    from pipeline.warehouse import places

    wishes = Wishes(tuple(dimension or ()), limit, _age(age_limit), dry_run, job_is_stopped, infer)
    plan = resolve(chosen(config, set_))
    with places.told(places.tables(plan.settings)):
        for line in repair(plan, wishes):
            print(line, flush=True)


def _age(text: str) -> Seconds | None:
    try:
        return Seconds.parse(text) if text else None
    except ValueError:
        raise BadSetting(f"--age-limit {text!r} must be a duration such as 36 h or 30 d.") from None
