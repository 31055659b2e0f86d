"""`millrace generate`: sales."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.commands.options import Config, Set, chosen
from pipeline.errors import BadSetting

if TYPE_CHECKING:
    from pipeline.generate.sent import Sent

_STREAMS = (
    "Of --bursty, 1 to 30: N streams are bursty on all scales up to 2^N hundredths of a second, and even out beyond. "
    "10 for 10 s, 16 for 11 min, 20 for 3 h."
)

Share = Annotated[float, typer.Option(min=0, max=1)]


def command(
    topic: Annotated[list[str] | None, typer.Option(help="May be given several times: name or name=weight.")] = None,
    messages: Annotated[int | None, typer.Option(help="Stop after so many.")] = None,
    seconds: Annotated[float | None, typer.Option(help="Stop after so long.")] = None,
    rate: Annotated[float | None, typer.Option(help="Messages a second; without it as fast as possible.")] = None,
    bursty: Annotated[
        bool, typer.Option("--bursty", help="Self-similar bursts around the rate; see --streams.")
    ] = False,
    streams: Annotated[int | None, typer.Option(help=_STREAMS, show_default="10")] = None,
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
    from pipeline.generate import run
    from pipeline.generate.keys import Sizes
    from pipeline.generate.send import SendFailed
    from pipeline.generate.workload import Workload

    kafka = chosen(config, set_).kafka
    topics, sizes = _weights(topic or list(kafka.topics)), Sizes(products, customers, stores)
    workload = Workload(
        topics, sizes, skew, malformed=malformed, unknown=unknown, null_keys=null_keys, duplicates=duplicates,
        keyed=keyed, seed=seed, first_sale=first_sale,
    )  # fmt: skip
    try:
        sent = run.generate(
            bootstrap=kafka.bootstrap, client=kafka.librdkafka, workload=workload,
            messages=messages, seconds=seconds, rate=rate, bursty=bursty, streams=streams, partitions=partitions,
        )  # fmt: skip
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
