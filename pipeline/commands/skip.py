"""`millrace skip`: on without what Kafka deleted."""

from __future__ import annotations

from typing import Annotated

import typer

from pipeline.commands.options import Config, Set, chosen
from pipeline.errors import BadSetting


def command(
    topic: Annotated[list[str], typer.Option(help="Whose deleted messages to do without; may be repeated.")],
    to: Annotated[str, typer.Option(help="Where to go on: earliest, the first message that Kafka still has.")],
    reason: Annotated[str, typer.Option(help="Noted with the gap in the facts' log.")] = "",
    config: Config = None,
    set_: Set = None,
) -> None:
    """Go on without messages that Kafka deleted before they were read; the gap is noted in the facts' log."""
    from pipeline.driver import mend

    if to != "earliest":
        raise BadSetting(f"--to {to}: only `earliest` is possible; messages that Kafka still has are not skipped.")
    gaps = mend.skip(chosen(config, set_), topic, reason)
    for gap in gaps:
        print(f"{gap.topic}/{gap.partition}: skipped offsets {gap.first:,} to {gap.last:,}, {gap.messages:,} messages")
    if not gaps:
        print("nothing to skip: Kafka has every message that comes next")
