"""`millrace bench`: the papers' experiments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pipeline.commands.options import Config, Set, chosen

commands = typer.Typer(help="The papers' experiments: list them, run them, compare.", no_args_is_help=True)

Results = Annotated[Path, typer.Option(help="The folder of the raw results.")]
FOLDER = Path("millrace-results")


@commands.command("list")
def list_all(results: Results = FOLDER, master: str = "charged") -> None:
    """List the experiments, with what is done of each."""
    from pipeline.bench.definition.files import experiments
    from pipeline.bench.page.overview import overview

    print("\n".join(overview(experiments().values(), results, master)))


@commands.command("run")
def run(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME...", help="Of experiments or papers, or patterns such as 'cme*'; none: all."),
    ] = None,
    master: Annotated[str, typer.Option(help="charged: declared disks, a virtual clock; mysql: a server.")] = "charged",
    results: Annotated[Path | None, typer.Option(help="The folder of the raw results.")] = None,
    smoke: Annotated[bool, typer.Option("--smoke", help="Small sizes, into a new temporary folder.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Also what is done already.")] = False,
    config: Config = None,
    set_: Set = None,
) -> None:
    """Run what is missing of experiments, point by point. What is done is kept, whenever it is interrupted.

    With --master mysql on a server of its own that starts and ends with it; or, if there are settings, on theirs.
    """
    from pipeline.bench.work import work

    server = chosen(config, set_).master if config or set_ else None
    print(work(names or ["*"], master, results or FOLDER if not smoke else results, smoke, again, server))


@commands.command("compare")
def compare(
    results: Results = FOLDER,
    to: Annotated[Path, typer.Option(help="The page that is written.")] = Path("RESULTS.md"),
    plots: Annotated[bool, typer.Option(help="Draw the plots too; they need matplotlib.")] = True,
) -> None:
    """Judge the papers' claims by the raw results: a page, and a plot for each figure beside them."""
    from pipeline.bench.definition.files import experiments
    from pipeline.bench.page.compare import compare as write

    print(write(experiments(), results, to, plots))
