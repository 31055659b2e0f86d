"""The command line. Data goes to stdout, everything else to stderr; a failure is one sentence, see `failures`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from pipeline.commands import Config, Set, before, failures, job, laptop, mend, operate, reference
from pipeline.watch import logs

app = typer.Typer(
    name="millrace",
    help="Near-real-time enrichment: Kafka sales joined with MySQL master data into Delta tables, exactly once.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
for part in (laptop, job, operate, mend, reference):
    app.add_typer(part.commands)


def _say_version(wanted: bool) -> None:
    if wanted:
        print(reference.versions())
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
    # It may stand anywhere, but behind two dashes words belong to somebody else.
    ours = words[: words.index("--")] if "--" in words else words
    debug = logs.whole = "--debug" in ours
    with failures.told(debug):
        app([word for word in ours if word != "--debug"] + words[len(ours) :], prog_name="millrace")


if __name__ == "__main__":
    main()
