"""What a laptop needs that a cluster does not: servers, master rows and sales of its own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.commands import Config, Set, chosen
from pipeline.errors import BadSetting

if TYPE_CHECKING:
    from pipeline.generate.sent import Sent

commands = typer.Typer()

Folder = Annotated[Path, typer.Option(help="Where the embedded stack keeps data and logs.")]
Share = Annotated[float, typer.Option(min=0, max=1)]
_FOLDER = Path(".millrace")


@commands.command()
def demo(
    seconds: Annotated[int, typer.Option(min=1, help="How long sales flow.")] = 60,
    rate: Annotated[int, typer.Option(min=1, help="Mean sales a second, in bursts.")] = 5_000,
    folder: Folder = _FOLDER,
) -> None:
    """See it all: embedded stack, master data, bursty sales, the job, a live panel, and the proof that it adds up."""
    from pipeline.laptop.demo import demo as run_demo

    sys.exit(run_demo(folder=folder, seconds=seconds, rate=rate))


@commands.command()
def up(folder: Folder = _FOLDER, config: Config = None, set_: Set = None) -> None:
    """Start the embedded Kafka broker and database; they keep running until `millrace down`.

    The job's account may read the master tables that the settings name, also those that are made later.
    """
    from pipeline.config.contracts import Contracts
    from pipeline.laptop.stack.stack import Stack, lines_for_settings

    stack = Stack(folder)
    info = stack.up()
    owner = info.owner
    print(f"Kafka     {info.bootstrap}")
    print(f"database  {info.host}:{info.port}, {info.database}")
    print(f"settings  {info.settings_file}, read by itself where it is ./.millrace/stack.toml")
    print("owner     for tables of your own; the database is reached from this machine only:")
    print(
        f"          mysql --host={info.host} --port={info.port} --user={owner.user} --password={owner.password} "
        f"{info.database}"
    )
    settings = chosen(config, set_)
    contracts = Contracts(settings.contracts.folder or None)
    tables = [contracts.dimension(name, d.contract).table for name, d in settings.dimensions.items()]
    stack.database.allow_reading(tables, settings.master.database)
    print(f"reader    {info.reader.user}, the job's account, may read {', '.join(tables)}")
    print(f"\nA settings file of your own needs these lines:\n\n{lines_for_settings(info)}", end="")


@commands.command()
def down(folder: Folder = _FOLDER) -> None:
    """Stop the embedded stack. Its data stays."""
    from pipeline.laptop.stack.stack import Stack

    Stack(folder).down()


topics = typer.Typer(help="Make a topic, or list those that are there.", no_args_is_help=True)
commands.add_typer(topics, name="topic")


@topics.command("create")
def create_topic(
    name: str,
    partitions: Annotated[int, typer.Option(min=1, help="More of them let more workers read at once.")] = 4,
    config: Config = None,
    set_: Set = None,
) -> None:
    """Make a topic on the brokers of the settings: the embedded one, or your own."""
    from pipeline.driver.brokers import Brokers

    kafka = chosen(config, set_).kafka
    Brokers(kafka.bootstrap, kafka.librdkafka).create(name, partitions)
    print(f"topic {name} with {partitions} partitions at {kafka.bootstrap}")


@topics.command("list")
def list_topics(config: Config = None, set_: Set = None) -> None:
    """List the topics on the brokers of the settings, each with its partitions."""
    from pipeline.driver.brokers import Brokers

    kafka = chosen(config, set_).kafka
    for name, topic in sorted(Brokers(kafka.bootstrap, kafka.librdkafka).topics().items()):
        print(f"{name} {len(topic.partitions)}")


@commands.command()
def sql(
    file: Annotated[Path, typer.Argument(help="Statements, each ended with a semicolon.")],
    folder: Folder = _FOLDER,
) -> None:
    """Run SQL in the embedded database, as its owner: master tables of your own, without a client of MySQL."""
    from pipeline.laptop.stack.stack import Stack

    try:
        script = file.read_text("utf-8")
    except (OSError, ValueError) as error:
        raise BadSetting(
            f"{file} cannot be read as UTF-8 text: {getattr(error, 'strerror', None) or error}."
        ) from error
    tables = Stack(folder).database.run_script(script)
    print(f"tables    {', '.join(tables)}")


@commands.command()
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
    from pipeline.laptop.stack.stack import Stack

    with Stack(folder).database.connect("owner") as connection:
        for table in fill(connection, Sizes(products, customers, stores), replace=replace):
            print(f"{table.table}: {table.rows:,} rows in {table.seconds:.1f} s")


@commands.command()
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
    from pipeline.generate import run as generating
    from pipeline.generate.keys import Sizes
    from pipeline.generate.send import SendFailed
    from pipeline.generate.workload import Workload

    kafka = chosen(config, set_).kafka
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
            client=kafka.librdkafka,
            workload=workload,
            messages=messages,
            seconds=seconds,
            rate=rate,
            bursty=bursty,
            partitions=partitions,
        )
    except SendFailed as error:
        # What did arrive is still told, so that it can be reconciled.
        _tell(error.sent, report)
        raise
    _tell(sent, report)


def _tell(sent: Sent | None, file: Path | None) -> None:
    if sent is not None:
        if file:
            sent.write(file)
        print(sent.to_json())


def _weights(topics: list[str]) -> dict[str, float]:
    named = (topic.partition("=") for topic in topics)
    return {name: _number(f"--topic {name}", weight or "1") for name, _, weight in named}


def _number(option: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise BadSetting(f"{option}: {text!r} is not a number.") from None
