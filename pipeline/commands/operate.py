"""What a job needs beside itself: jars, a cluster, tables that stay quick."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from pipeline.commands import Config, Set, before, chosen
from pipeline.config import resources
from pipeline.errors import BadSetting

if TYPE_CHECKING:
    from pipeline.config.loader import Bytes

commands = typer.Typer()
_SAFE_HOURS = 168  # pipeline.warehouse.maintain's own default, which is too slow to import for a line of help


@commands.command()
def jars(
    store: Annotated[
        list[str] | None, typer.Option(help="Also this store's connector: s3, azure, google. May be repeated.")
    ] = None,
    config: Config = None,
    set_: Set = None,
) -> None:
    """Fetch the jars Spark needs for Kafka, Delta and the settings' store; list them as spark-submit's --jars wants."""
    from pipeline.java import jars as locked

    if unknown := set(store or ()) - set(locked.STORES.values()):
        raise BadSetting(f"--store {sorted(unknown)[0]} is not known; there are s3, azure and google.")
    wanted = chosen(config, set_)
    print(",".join(map(str, locked.for_spark(wanted.warehouse.path, wanted.job.checkpoint, stores=store or ()))))


class Verbatim(TyperCommand):
    """A command whose words are somebody else's, two dashes included."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args[:1] == ["--help"]:
            return list(super().parse_args(ctx, args))
        ctx.args = list(args)
        return list(args)


@commands.command(cls=Verbatim, options_metavar="[OPTIONS OF SPARK-SUBMIT] [-- OPTIONS OF RUN]")
def submit(context: typer.Context) -> None:
    """Submit the job to a Spark cluster that knows nothing of Millrace; code, packages and jars travel with it.

    millrace submit --master spark://host:7077 --executor-memory 2g -- --config my.toml
    """
    words = context.args
    at = words.index("--") if "--" in words else len(words)
    ours = ["--config", str(before.config)] if before.config else []
    ours += [word for assignment in before.assignments for word in ("--set", assignment)]
    os.environ["MILLRACE_PYTHON"] = sys.executable
    script = resources.deployed("spark/submit.sh")
    if not script.is_file():
        raise BadSetting(
            f"there is no {script}: an image has everything in it already. Submit from a clone or a wheel, or let a "
            "Kubernetes operator start the image."
        )
    os.execvp("bash", ["bash", str(script), *words[:at], "--", *ours, *words[at + 1 :]])


@commands.command()
def maintain(
    step: Annotated[list[str] | None, typer.Option(help="Only this: optimize, log or vacuum; may be repeated.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Tell what would be done, and do nothing.")] = False,
    target: Annotated[str, typer.Option(help="Size of a merged file; smaller ones are merged.")] = "256 MiB",
    retain_hours: Annotated[int, typer.Option(min=0, help="How long removed files stay.")] = _SAFE_HOURS,
    force: Annotated[list[str] | None, typer.Option(help="A table that may be vacuumed earlier than is safe.")] = None,
    job_is_stopped: Annotated[bool, typer.Option("--job-is-stopped", help="Needed on S3.")] = False,
    config: Config = None,
    set_: Set = None,
) -> None:
    """Keep the warehouse tables quick and small: OPTIMIZE, log and checkpoint retention, VACUUM."""
    from pipeline.driver.session import open_session
    from pipeline.plan import resolve
    from pipeline.warehouse import maintain as maintaining
    from pipeline.warehouse import places

    wishes = maintaining.Wishes(
        steps=tuple(step or maintaining.STEPS),
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
            maintaining.maintain(spark, plan, wishes, say=lambda line: print(line, flush=True))
    finally:
        spark.stop()


def _size(text: str) -> Bytes:
    from pipeline.config.loader import Bytes

    try:
        return Bytes.parse(text)
    except ValueError:
        raise BadSetting(f"--target {text!r} must be a size such as 256 MiB.") from None
