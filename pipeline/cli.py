"""The command line. Data goes to stdout, everything else to stderr; an error the user can mend is one sentence."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.errors import BadSetting, MillraceError

if TYPE_CHECKING:
    from pipeline.generate.report import Report

app = typer.Typer(
    name="millrace",
    help="Near-real-time enrichment: Kafka sales joined with MySQL master data into Delta tables, exactly once.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Config = Annotated[Path | None, typer.Option("--config", "-c", help="Settings file (TOML); see deploy/reference.toml.")]
Set = Annotated[list[str] | None, typer.Option("--set", "-s", metavar="KEY=VALUE", help="One setting; wins over all.")]
Folder = Annotated[Path, typer.Option(help="Where the embedded stack keeps data and logs.")]
Share = Annotated[float, typer.Option(min=0, max=1)]
_FOLDER = Path(".millrace")


@app.command()
def demo(
    seconds: Annotated[int, typer.Option(min=1, help="How long sales flow.")] = 60,
    rate: Annotated[int, typer.Option(min=1, help="Mean sales a second, in bursts.")] = 5_000,
    folder: Folder = _FOLDER,
) -> None:
    """See it all: embedded stack, master data, bursty sales, the job, a live panel, and the proof that it adds up."""
    from pipeline.demo import demo as run_demo

    sys.exit(run_demo(folder=folder, seconds=seconds, rate=rate))


@app.command()
def up(folder: Folder = _FOLDER) -> None:
    """Start the embedded Kafka broker and database; they keep running until `millrace down`."""
    from pipeline.local.stack import Stack

    info = Stack(folder).up()
    print(f"Kafka     {info.bootstrap}")
    print(f"database  {info.host}:{info.port}, {info.database}; the job reads as {info.reader.user}")
    print(f"settings  {info.settings_file}")


@app.command()
def down(folder: Folder = _FOLDER) -> None:
    """Stop the embedded stack. Its data stays."""
    from pipeline.local.stack import Stack

    Stack(folder).down()


@app.command()
def seed(
    products: Annotated[int, typer.Option(min=1)] = 2_000_000,
    customers: Annotated[int, typer.Option(min=1)] = 200_000,
    stores: Annotated[int, typer.Option(min=1)] = 500,
    replace: Annotated[bool, typer.Option("--replace", help="Empty tables that have rows.")] = False,
    folder: Folder = _FOLDER,
) -> None:
    """Fill the embedded database's master tables with rows in bulk."""
    from pipeline.generate.keys import Sizes
    from pipeline.generate.seed import seed as fill
    from pipeline.local.stack import Stack

    with Stack(folder).database.connect("owner") as connection:
        for table in fill(connection, Sizes(products, customers, stores), replace=replace):
            print(f"{table.table}: {table.rows:,} rows in {table.seconds:.1f} s")


@app.command()
def generate(
    topic: Annotated[list[str] | None, typer.Option(help="May be given several times: name or name=weight.")] = None,
    messages: Annotated[int | None, typer.Option(help="Stop after so many.")] = None,
    seconds: Annotated[float | None, typer.Option(help="Stop after so long.")] = None,
    rate: Annotated[float | None, typer.Option(help="Messages a second; without it as fast as possible.")] = None,
    bursty: Annotated[bool, typer.Option("--bursty", help="Self-similar bursts around the rate.")] = False,
    skew: Annotated[str, typer.Option(help="Zipf exponent of the products, or 80/20.")] = "1.0",
    products: Annotated[int, typer.Option(min=1)] = 2_000_000,
    customers: Annotated[int, typer.Option(min=1)] = 200_000,
    stores: Annotated[int, typer.Option(min=1)] = 500,
    malformed: Share = 0.0,
    unknown: Share = 0.0,
    null_keys: Share = 0.0,
    duplicates: Share = 0.0,
    keyed: Annotated[bool, typer.Option("--keyed", help="The Kafka key is the store code.")] = False,
    partitions: Annotated[int, typer.Option(min=1, help="Of topics that have to be made.")] = 4,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same sales.")] = 1,
    first_sale: Annotated[int, typer.Option(min=0, help="Go on behind an earlier run: its next_sale.")] = 0,
    report: Annotated[Path | None, typer.Option(help="Also write what was sent to this file.")] = None,
    config: Config = None,
    set_: Set = None,
) -> None:
    """Send sales to Kafka, and print as JSON what was sent."""
    from pipeline import settings
    from pipeline.generate import run as generating
    from pipeline.generate.keys import Sizes
    from pipeline.generate.send import SendFailed
    from pipeline.generate.workload import Workload

    kafka = settings.load(config, set_ or ()).kafka
    workload = Workload(
        topics=_weights(topic or list(kafka.topics)),
        sizes=Sizes(products, customers, stores),
        skew=skew,
        malformed=malformed,
        unknown=unknown,
        null_keys=null_keys,
        duplicates=duplicates,
        keyed=keyed,
        seed=seed,
        first_sale=first_sale,
    )
    try:
        sent = generating.generate(
            bootstrap=kafka.bootstrap,
            client=kafka.client,
            workload=workload,
            messages=messages,
            seconds=seconds,
            rate=rate,
            bursty=bursty,
            partitions=partitions,
        )
    except SendFailed as error:
        # What did arrive is still told, so that it can be reconciled.
        _tell(error.report, report)
        raise
    _tell(sent, report)


def _tell(sent: Report | None, file: Path | None) -> None:
    if sent is not None:
        if file:
            sent.write(file)
        print(sent.to_json())


@app.command()
def run(config: Config = None, set_: Set = None) -> None:
    """Run the job: Kafka topics -> parse -> enrich -> Delta."""
    from pipeline import job, logs, settings

    logs.to_stderr()
    job.run(settings.load(config, set_ or ()))


@app.command()
def explain(
    rate: Annotated[float, typer.Option(min=1, help="Sales a second to be ready for.")] = 10_000,
    offline: Annotated[bool, typer.Option("--offline", help="Only the plan; read no table's size.")] = False,
    config: Config = None,
    set_: Set = None,
) -> None:
    """Print the resolved plan, and what every join would do on your tables. Changes nothing."""
    from pipeline import explain as explaining
    from pipeline import settings
    from pipeline.master.mysql import MySqlMaster
    from pipeline.plan import resolve
    from pipeline.settings_loader import Seconds

    plan = resolve(settings.load(config, set_ or ()))
    print(explaining.explain(plan), end="")
    at_once = replace(plan.settings.master, retry_for=Seconds(0))  # somebody is looking at the screen
    for name, contract in plan.dimensions.items() if not offline else ():
        master = MySqlMaster(at_once, contract)
        try:
            print(f"\n{explaining.compare(plan, name, master, rate)}", end="")
        finally:
            master.close()


@app.command()
def calibrate(config: Config = None, set_: Set = None) -> None:
    """Measure on your database what each read and each step costs; `explain` and `auto` go by that afterwards."""
    from pipeline import calibrate as calibrating
    from pipeline import costs, settings
    from pipeline.master.mysql import MySqlMaster
    from pipeline.plan import resolve

    plan = resolve(settings.load(config, set_ or ()))
    measured = {}
    for name, contract in plan.dimensions.items():
        print(f"{name}:", file=sys.stderr)
        master = MySqlMaster(plan.settings.master, contract)
        try:
            connections = plan.settings.master.connections
            measured[name] = calibrating.calibrate(
                master, connections, lambda line: print(f"  {line}", file=sys.stderr)
            )
        finally:
            master.close()
    where = plan.settings.master
    costs.save(where.costs, measured, f"Measured by millrace calibrate on {where.host}:{where.port}/{where.database}.")
    print(where.costs)


@app.command()
def top(
    endpoint: Annotated[str, typer.Option(help="The job's metrics endpoint.")] = "",
    config: Config = None,
    set_: Set = None,
) -> None:
    """The live panel of a running job, from its metrics endpoint."""
    from pipeline import settings
    from pipeline.panel import Panel

    metrics = settings.load(config, set_ or ()).metrics
    try:
        Panel(endpoint or f"http://{metrics.host}:{metrics.port}").run(until=lambda: False)
    except KeyboardInterrupt:
        return


@app.command()
def status(
    endpoint: Annotated[str, typer.Option(help="The job's metrics endpoint.")] = "",
    json: Annotated[bool, typer.Option("--json", help="As one JSON object.")] = False,
    over: Annotated[float, typer.Option(min=0, help="Seconds between the two looks that rates come from.")] = 2.0,
    config: Config = None,
    set_: Set = None,
) -> None:
    """Say once how a running job does. Exit code 0: it is ready; 1: it is still starting; 2: there is none."""
    from json import dumps

    from rich.console import Console

    from pipeline import settings
    from pipeline import status as looking
    from pipeline.panel import Panel
    from pipeline.scrape import metrics_url

    metrics = settings.load(config, set_ or ()).metrics
    url = metrics_url(endpoint or f"{metrics.host}:{metrics.port}")
    seen = looking.look(url, over)
    if json:
        print(dumps(looking.as_data(seen, url), indent=2))
    else:
        Console().print(Panel(url).render(seen))
    sys.exit(0 if seen.ready else 1)


@app.command("reconcile")
def reconcile_(
    sent: Annotated[Path | None, typer.Option(help="The report that `millrace generate --report` wrote.")] = None,
    config: Config = None,
    set_: Set = None,
) -> None:
    """Prove that Kafka, the database and the warehouse agree. Exit code 1 if they do not."""
    from pipeline import settings
    from pipeline.generate.report import Report
    from pipeline.plan import resolve
    from pipeline.reconcile import reconcile

    verdict = reconcile(resolve(settings.load(config, set_ or ())), Report.read(sent) if sent else None)
    print(verdict)
    sys.exit(0 if verdict.ok else 1)


@app.command()
def jars() -> None:
    """Fetch the jars Spark needs for Kafka and Delta, and list them as spark-submit's --jars wants them."""
    from pipeline.local import jars as locked

    print(",".join(str(jar) for jar in locked.fetch("spark")))


@app.command()
def joins() -> None:
    """List the joins that can be set, one a line."""
    from pipeline.joins import JOINS

    print("\n".join(JOINS))


def _weights(topics: list[str]) -> dict[str, float]:
    named = (topic.partition("=") for topic in topics)
    return {name: _number(f"--topic {name}", weight or "1") for name, _, weight in named}


def _number(option: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise BadSetting(f"{option}: {text!r} is not a number.") from None


def main() -> None:
    """Run the command line; what the user can mend is told in one sentence."""
    try:
        app()
    except MillraceError as error:
        print(f"millrace: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
