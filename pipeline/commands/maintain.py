"""`millrace maintain`: tables that stay quick and small."""

from __future__ import annotations

from typing import Annotated

import typer

from pipeline.commands.options import Config, Set, chosen
from pipeline.config.measures import Bytes
from pipeline.errors import BadSetting
from pipeline.warehouse.wishes import STEPS, Wishes


def command(
    step: Annotated[list[str] | None, typer.Option(help="Only this: optimize, log or vacuum; may be repeated.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Tell what would be done, and do nothing.")] = False,
    target: Annotated[str, typer.Option(help="Size of a merged file; smaller ones are merged.")] = str(Wishes.target),
    retain_hours: Annotated[int, typer.Option(min=0, help="How long removed files stay.")] = Wishes.retain_hours,
    force: Annotated[list[str] | None, typer.Option(help="A table that may be vacuumed earlier than is safe.")] = None,
    job_is_stopped: Annotated[bool, typer.Option("--job-is-stopped", help="Needed on S3.")] = False,
    config: Config = None,
    set_: Set = None,
) -> None:
    """Keep the warehouse tables quick and small: OPTIMIZE, log and checkpoint retention, VACUUM."""
    from pipeline import history
    from pipeline.driver.session import open_session
    from pipeline.plan import resolve
    from pipeline.warehouse import maintain, places

    wishes = Wishes(
        steps=tuple(step or STEPS),
        dry_run=dry_run,
        target=_size(target),
        retain_hours=retain_hours,
        forced=frozenset(force or ()),
        job_is_stopped=job_is_stopped,
    )
    plan = resolve(chosen(config, set_))
    spark = open_session(plan.settings)
    try:
        with places.told(places.tables(plan.settings)):
            maintain.maintain(spark, plan, wishes, lambda line: print(line, flush=True), history.tables(plan))
    finally:
        spark.stop()


def _size(text: str) -> Bytes:
    try:
        return Bytes.parse(text)
    except ValueError:
        raise BadSetting(f"--target {text!r} must be a size such as 256 MiB.") from None
