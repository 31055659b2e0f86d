"""`millrace reconcile`: the proof."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from pipeline.commands.options import Config, Set, chosen


def command(
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
