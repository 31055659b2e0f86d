"""`millrace grants`: the least that the job's accounts must be allowed."""

from __future__ import annotations

import shlex
from enum import Enum
from typing import Annotated

import typer

from pipeline.commands.options import Config, Set, chosen


class Server(str, Enum):
    MYSQL = "mysql"
    KAFKA = "kafka"


def command(
    server: Annotated[Server, typer.Argument(help="Whose rights.")],
    account_host: Annotated[str, typer.Option(help="MySQL: from where the account comes, as in 'millrace'@'%'.")] = "%",
    principal: Annotated[str, typer.Option(help="Kafka: as the broker names it; else the user of its log-in.")] = "",
    config: Config = None,
    set_: Set = None,
) -> None:
    """Print what the database's or the broker's administrator runs, so that the job may read what its settings name,
    and nothing else. Changes nothing.

    millrace grants mysql --config my.toml | mysql --user=root
    """
    from pipeline import history
    from pipeline.errors import BadSetting
    from pipeline.kafka import rights
    from pipeline.master.open import grants, grants_to_infer
    from pipeline.plan import resolve

    plan = resolve(chosen(config, set_))
    if server is Server.MYSQL:
        master, inferred = plan.settings.master, plan.settings.inferred
        print("\n".join(grants(master, plan.dimensions, account_host, bool(history.kept(plan)))))
        for statement in grants_to_infer(master, inferred, plan.dimensions, account_host):
            print(statement)
        return
    kafka = plan.settings.kafka
    named = principal or kafka.librdkafka.get("sasl.username", "")
    if not named:
        raise BadSetting(
            "who the job is for Kafka is not known from its settings: name it with --principal, for example "
            "--principal User:shop, or the name in its certificate: --principal 'User:CN=millrace'."
        )
    named = named if ":" in named else f"User:{named}"
    for words in rights.words(kafka, named):
        print(shlex.join(["kafka-acls.sh", "--bootstrap-server", kafka.bootstrap, *words]))
