"""`millrace topic create` and `millrace topic list`."""

from __future__ import annotations

from typing import Annotated

import typer

from pipeline.commands.options import Config, Set, chosen

commands = typer.Typer(help="Make a topic, or list those that are there.", no_args_is_help=True)


@commands.command("create")
def create(
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


@commands.command("list")
def list_all(config: Config = None, set_: Set = None) -> None:
    """List the topics on the brokers of the settings, each with its partitions."""
    from pipeline.driver.brokers import Brokers

    kafka = chosen(config, set_).kafka
    for name, topic in sorted(Brokers(kafka.bootstrap, kafka.librdkafka).topics().items()):
        print(f"{name} {len(topic.partitions)}")
