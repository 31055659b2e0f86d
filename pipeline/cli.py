"""The command line. Data goes to stdout, everything else to stderr; an error the user can mend is one sentence."""

from __future__ import annotations

import sys

import typer

from pipeline.commands import job, laptop, mend
from pipeline.errors import MillraceError

app = typer.Typer(
    name="millrace",
    help="Near-real-time enrichment: Kafka sales joined with MySQL master data into Delta tables, exactly once.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(laptop.commands)
app.add_typer(job.commands)
app.add_typer(mend.commands)


def main() -> None:
    """Run the command line; what the user can mend is told in one sentence."""
    try:
        app()
    except MillraceError as error:
        print(f"millrace: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
