"""`millrace jars`: what Spark needs."""

from __future__ import annotations

from typing import Annotated

import typer

from pipeline.commands.options import Config, Set, chosen
from pipeline.errors import BadSetting


def command(
    store: Annotated[
        list[str] | None, typer.Option(help="Also this store's connector: s3, azure, google. May be repeated.")
    ] = None,
    config: Config = None,
    set_: Set = None,
) -> None:
    """Fetch the jars Spark needs for Kafka, Delta and the settings' store; list them as spark-submit's --jars wants."""
    from pipeline.java import jars

    if unknown := set(store or ()) - set(jars.STORES.values()):
        raise BadSetting(f"--store {sorted(unknown)[0]} is not known; there are s3, azure and google.")
    wanted = chosen(config, set_)
    print(",".join(map(str, jars.for_spark(wanted.warehouse.path, wanted.job.checkpoint, stores=store or ()))))
