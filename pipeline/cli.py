"""The command line. Data goes to stdout, everything else to stderr; a failure is one sentence, see `failures`."""

from __future__ import annotations

import platform
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from pipeline import __version__
from pipeline.commands import (
    backfill,
    bench,
    bundle,
    calibrate,
    contracts,
    demo,
    doctor,
    down,
    explain,
    failures,
    generate,
    grants,
    jars,
    joins,
    maintain,
    reconcile,
    rejects,
    repair,
    replay,
    rewind,
    run,
    seed,
    settings,
    skip,
    sql,
    status,
    submit,
    sync,
    top,
    topic,
    up,
    why,
)  # fmt: skip
from pipeline.commands.options import Config, Set, before
from pipeline.watch import logs

COMMANDS = (
    demo, up, down, sql, seed, generate, grants, doctor, run, explain, calibrate, top, status, reconcile, jars, submit,
    bundle, why, replay, maintain, repair, backfill, sync, rewind, skip, settings, contracts, joins,
)  # fmt: skip

app = typer.Typer(
    name="millrace",
    help="Near-real-time enrichment: Kafka sales joined with MySQL master data into Delta tables, exactly once.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
for file in COMMANDS:
    name = file.__name__.rpartition(".")[2]
    app.command(name, **getattr(file, "HOW", {}))(file.command)
app.add_typer(topic.commands, name="topic")
app.add_typer(rejects.commands, name="rejects")
app.add_typer(bench.commands, name="bench")


def versions() -> str:
    return f"millrace {__version__} (Python {platform.python_version()})"


def _say_version(wanted: bool) -> None:
    if wanted:
        print(versions())
        raise typer.Exit


@app.callback()
def options(
    config: Config = None,
    set_: Set = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of a failure too; anywhere.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Say the version, and end.", callback=_say_version, is_eager=True)
    ] = False,
) -> None:
    before.config, before.assignments = config, tuple(set_ or ())


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    # It may stand anywhere, but behind two dashes words belong to another program.
    ours = words[: words.index("--")] if "--" in words else words
    debug = logs.whole = "--debug" in ours
    with failures.told(debug):
        app([word for word in ours if word != "--debug"] + words[len(ours) :], prog_name="millrace")


if __name__ == "__main__":
    main()
