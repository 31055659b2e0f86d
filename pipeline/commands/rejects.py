"""`millrace rejects list`, `show` and `replay`."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Annotated

import typer

from pipeline.commands.options import Config, Set, chosen
from pipeline.errors import BadSetting

commands = typer.Typer(help="Messages that are no valid sales: look at them, let them in again.", no_args_is_help=True)

Topic = Annotated[str, typer.Option(help="Only rejects of this topic.")]
Reason = Annotated[str, typer.Option(help="Only rejects with this reason, as `list` shows it.")]
Json = Annotated[bool, typer.Option("--json", help="For scripts.")]


@commands.command("list")
def list_all(
    topic: Topic = "", reason: Reason = "", as_json: Json = False, config: Config = None, set_: Set = None
) -> None:
    """Count the rejects by reason and topic, the most frequent first, each with an example that `show` takes."""
    from pipeline.plan import resolve
    from pipeline.reentry.rejects import Wanted, groups
    from pipeline.warehouse import places

    plan = resolve(chosen(config, set_))
    with places.told(places.tables(plan.settings)):
        found = groups(plan, Wanted(topic, reason))
    if as_json:
        print(json.dumps([asdict(group) for group in found]))
    else:
        print("\n".join(map(str, found)) if found else "no rejects")


@commands.command("show")
def show(
    topic: Annotated[str, typer.Argument(help="The message's topic.")],
    partition: Annotated[int, typer.Argument(min=0, help="Its partition.")],
    offset: Annotated[int, typer.Argument(min=0, help="Its offset.")],
    raw: Annotated[bool, typer.Option("--raw", help="Only its bytes, as they were sent.")] = False,
    as_json: Json = False,
    config: Config = None,
    set_: Set = None,
) -> None:
    """Show one reject: why, since when, and its bytes. Exit code 1 if the message is no reject."""
    from pipeline import columns
    from pipeline.plan import resolve
    from pipeline.reentry.rejects import one, told
    from pipeline.warehouse import places

    plan = resolve(chosen(config, set_))
    with places.told(places.tables(plan.settings)):
        found = one(plan, topic, partition, offset)
    if found is None:
        print(f"{plan.rejects.name} has no message of {topic}/{partition} at offset {offset:,}", file=sys.stderr)
        sys.exit(1)
    if raw:
        if columns.VALUE not in found:
            raise BadSetting(
                f"--raw: the contract of {plan.rejects.name} keeps no bytes (a column from message.value)."
            )
        sys.stdout.buffer.write(found[columns.VALUE] or b"")
    elif as_json:
        print(json.dumps(told(found)))
    else:
        print("\n".join(f"{name}  {value}" for name, value in told(found).items()))


@commands.command("replay")
def replay(
    topic: Topic = "",
    reason: Reason = "",
    limit: Annotated[int | None, typer.Option(metavar="ROWS", help="Let in at most so many.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Tell what would be let in, and do nothing.")] = False,
    because: Annotated[str, typer.Option(help="Noted in the facts' log.")] = "",
    job_is_stopped: Annotated[bool, typer.Option("--job-is-stopped", help="Needed on S3 with Spark's writer.")] = False,
    as_json: Json = False,
    config: Config = None,
    set_: Set = None,
) -> None:
    """Make facts, once each, of rejects that are valid sales by the contract of today, beside the running job."""
    from pipeline.plan import resolve
    from pipeline.reentry.rejects import Wanted
    from pipeline.reentry.replay import Wishes
    from pipeline.reentry.replay import replay as replayed
    from pipeline.warehouse import places

    wishes = Wishes(Wanted(topic, reason), limit, dry_run, because, job_is_stopped)
    plan = resolve(chosen(config, set_))
    with places.told(places.tables(plan.settings)):
        done = replayed(plan, wishes)
    print(json.dumps(done.as_json()) if as_json else done)
