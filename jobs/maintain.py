"""python jobs/maintain.py [--dry-run] [OPTIONS]: merge small files, drop what has expired from log and folder."""

from typing import Annotated

import typer

from pipeline import cli, settings
from pipeline.commands import Config, Set
from pipeline.maintain import SAFE_RETENTION_HOURS, STEPS, Wishes, maintain
from pipeline.plan import resolve
from pipeline.session import open_session
from pipeline.settings_loader import Bytes


@cli.app.command("maintain")
def main(
    step: Annotated[list[str] | None, typer.Option(help=f"Only this; may be repeated: {', '.join(STEPS)}.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Tell what would be done, and do nothing.")] = False,
    target: Annotated[str, typer.Option(help="Size of a merged file; smaller ones are merged.")] = "256 MiB",
    retain_hours: Annotated[int, typer.Option(min=0, help="How long removed files stay.")] = SAFE_RETENTION_HOURS,
    force: Annotated[list[str] | None, typer.Option(help="A table that may be vacuumed earlier than is safe.")] = None,
    job_is_stopped: Annotated[bool, typer.Option("--job-is-stopped", help="Needed on S3.")] = False,
    config: Config = None,
    set_: Set = None,
) -> None:
    """Keep the warehouse tables quick and small: OPTIMIZE, log and checkpoint retention, VACUUM."""
    wishes = Wishes(
        steps=tuple(step or STEPS),
        dry_run=dry_run,
        target=Bytes.parse(target),
        retain_hours=retain_hours,
        forced=frozenset(force or ()),
        job_is_stopped=job_is_stopped,
    )
    plan = resolve(settings.load(config, set_ or ()))
    spark = open_session(plan.settings)
    try:
        maintain(spark, plan, wishes, say=lambda line: print(line, flush=True))
    finally:
        spark.stop()


if __name__ == "__main__":
    import sys

    sys.argv = ["millrace", "maintain", *sys.argv[1:]]
    cli.main()
