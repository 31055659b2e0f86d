"""The job: planned, run, watched and proved."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from pipeline.commands import Config, Set, chosen

commands = typer.Typer()


@commands.command()
def run(
    ready_file: Annotated[
        Path | None, typer.Option(help="Written when the job runs, gone when it ends: where its metrics are, as JSON.")
    ] = None,
    config: Config = None,
    set_: Set = None,
) -> None:
    """Run the job: Kafka topics -> parse -> enrich -> Delta."""
    from pipeline.driver import job
    from pipeline.watch import logs

    logs.to_stderr()
    job.run(chosen(config, set_), ready_file)


@commands.command()
def explain(
    rate: Annotated[float, typer.Option(min=1, help="Sales a second to be ready for.")] = 10_000,
    offline: Annotated[bool, typer.Option("--offline", help="Only the plan; read no table's size.")] = False,
    config: Config = None,
    set_: Set = None,
) -> None:
    """Print the plan, what every join would do on your tables, and whether `run` would start. Changes nothing.

    Exit code 2 if `run` would refuse.
    """
    from pipeline.advise import compare as comparing
    from pipeline.advise import explain as explaining
    from pipeline.advise.demand import Demand, Way
    from pipeline.plan import resolve
    from pipeline.watch.scrape import metrics_url

    plan = resolve(chosen(config, set_))
    print(explaining.explain(plan), end="", flush=True)
    if offline:
        print("verdict      none: with --offline neither Kafka nor the database is asked")
        return
    metrics = plan.settings.metrics
    demand = Demand.of(plan, rate, Way.of_job(metrics_url(f"{metrics.host}:{metrics.port}")))
    with _progress() as say:
        looked = comparing.look(plan, demand, say)
        for line in comparing.comparison(plan, looked, demand, say):
            print(line, flush=True)
    sys.exit(2 if looked.refusals else 0)


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """What is being done, on stderr: in place on a terminal, else a line each."""
    from rich.console import Console

    console = Console(stderr=True)
    if console.is_terminal and sys.stdout.isatty():
        with console.status("") as status:
            yield lambda doing: status.update(doing)
    else:
        yield lambda doing: print(doing, file=sys.stderr, flush=True)


@commands.command()
def calibrate(config: Config = None, set_: Set = None) -> None:
    """Measure on your database what each read and each step costs; `explain` and `auto` go by that afterwards."""
    from pipeline.advise import calibrate as calibrating
    from pipeline.joins.cost import costs_file as costs
    from pipeline.master.open import open_master
    from pipeline.plan import resolve

    plan = resolve(chosen(config, set_))
    measured = {}
    for name, contract in plan.dimensions.items():
        print(f"{name}:", file=sys.stderr)
        with open_master(plan.settings.master, contract) as master:
            connections = plan.settings.master.connections
            measured[name] = calibrating.calibrate(
                master, connections, lambda line: print(f"  {line}", file=sys.stderr)
            )
    where = plan.settings.master
    costs.save(where.costs, measured, f"Measured by millrace calibrate on {where.host}:{where.port}/{where.database}.")
    print(where.costs)


@commands.command()
def top(
    endpoint: Annotated[str, typer.Option(help="The job's metrics endpoint.")] = "",
    wait: Annotated[bool, typer.Option("--wait", help="For a job that is not there yet, or comes back.")] = False,
    config: Config = None,
    set_: Set = None,
) -> None:
    """The live panel of a running job, from its metrics endpoint. Ends when there is no job (any more): exit code 2."""
    from pipeline.watch.panel import Panel

    metrics = chosen(config, set_).metrics
    try:
        Panel(endpoint or f"http://{metrics.host}:{metrics.port}").run(until=lambda: False, wait=wait)
    except KeyboardInterrupt:
        return


@commands.command()
def status(
    endpoint: Annotated[str, typer.Option(help="The job's metrics endpoint.")] = "",
    json: Annotated[bool, typer.Option("--json", help="As one JSON object.")] = False,
    over: Annotated[
        float | None,
        typer.Option(min=0, help="Look twice, so many seconds apart. Without it: the job's own last minute, at once."),
    ] = None,
    config: Config = None,
    set_: Set = None,
) -> None:
    """Say once how a running job does. Exit code 0: it is ready; 1: it is still starting; 2: there is none."""
    from json import dumps

    from rich.console import Console

    from pipeline.watch import status as looking
    from pipeline.watch.panel import Panel
    from pipeline.watch.scrape import metrics_url

    metrics = chosen(config, set_).metrics
    url = metrics_url(endpoint or f"{metrics.host}:{metrics.port}")
    seen = looking.look(url, over)
    if json:
        print(dumps(looking.as_data(seen, url), indent=2))
    else:
        Console().print(Panel(url).render(seen))
    sys.exit(0 if seen.ready else 1)


@commands.command("reconcile")
def reconcile_(
    sent: Annotated[Path | None, typer.Option(help="The report that `millrace generate --report` wrote.")] = None,
    config: Config = None,
    set_: Set = None,
) -> None:
    """Prove that Kafka, the database and the warehouse agree. Exit code 1 if they do not."""
    from pipeline.generate.sent import Sent
    from pipeline.plan import resolve
    from pipeline.reconcile import reconcile

    verdict = reconcile(resolve(chosen(config, set_)), Sent.read(sent) if sent else None)
    print(verdict)
    sys.exit(0 if verdict.ok else 1)
