"""The command line. Data goes to stdout, everything else to stderr; an error the user can mend is one sentence."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Annotated

import typer

from pipeline.errors import MillraceError

app = typer.Typer(
    name="millrace",
    help="Near-real-time enrichment: Kafka sales joined with MySQL master data into Delta tables, exactly once.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Config = Annotated[Path | None, typer.Option("--config", "-c", help="Settings file (TOML). See deploy/reference.toml.")]
Set = Annotated[list[str] | None, typer.Option("--set", "-s", metavar="KEY=VALUE", help="One setting; wins over all.")]
Folder = Annotated[Path, typer.Option(help="Where the embedded stack keeps data and logs.")]
_FOLDER = Path(".millrace")


@app.command()
def run(config: Config = None, set_: Set = None) -> None:
    """Run the job: Kafka topics -> parse -> enrich -> Delta."""
    from pipeline import job, settings

    _log_to_stderr()
    job.run(settings.load(config, set_ or ()))


@app.command()
def explain(config: Config = None, set_: Set = None) -> None:
    """Print the resolved plan: settings, contracts, joins and their memory. Reads nothing, changes nothing."""
    from pipeline import explain as explaining
    from pipeline import settings
    from pipeline.plan import resolve

    print(explaining.explain(resolve(settings.load(config, set_ or ()))))


def main() -> None:
    """Run the command line; what the user can mend is told in one sentence."""
    try:
        app()
    except MillraceError as error:
        print(f"millrace: {error}", file=sys.stderr)
        sys.exit(2)


def _log_to_stderr() -> None:
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)


if __name__ == "__main__":
    main()
