"""`millrace backfill`: a bounded range of the topics is read again, for what the tables lack."""

from __future__ import annotations

from typing import Annotated

import typer

from pipeline.commands.options import Config, Set, chosen


def command(
    from_: Annotated[
        str,
        typer.Option(
            "--from", help='A moment (2026-11-19T08:00:00Z), earliest, or offsets: \'{"sales": {"0": 1200}}\'.'
        ),
    ],
    to: Annotated[str, typer.Option(help="The same, not read itself; else as far as the job has read.")] = "",
    topic: Annotated[list[str] | None, typer.Option(help="Only this one; may be repeated.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Tell how much is missing, and do nothing.")] = False,
    reason: Annotated[str, typer.Option(help="Noted in the facts' log.")] = "",
    job_is_stopped: Annotated[bool, typer.Option("--job-is-stopped", help="Needed on S3 with Spark's writer.")] = False,
    config: Config = None,
    set_: Set = None,
) -> None:
    """Read a range of the topics again and write what is in neither table, beside the running job."""
    from pipeline.plan import resolve
    from pipeline.reentry.backfill import Wishes, backfill
    from pipeline.warehouse import places

    plan = resolve(chosen(config, set_))
    wishes = Wishes(from_, to, tuple(topic or ()), dry_run, reason, job_is_stopped)
    with places.told(places.tables(plan.settings)):
        for line in backfill(plan, wishes):
            print(line, flush=True)
