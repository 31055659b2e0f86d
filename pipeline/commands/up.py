"""`millrace up`: the embedded stack."""

from __future__ import annotations

from pipeline.commands.options import FOLDER, Config, Folder, Set, chosen


def command(folder: Folder = FOLDER, config: Config = None, set_: Set = None) -> None:
    """Start the embedded Kafka broker and database; they keep running until `millrace down`.

    The job's account may read the master tables that the settings name, also those that are made later.
    """
    from pipeline.config import toml
    from pipeline.config.contracts import Contracts
    from pipeline.laptop.stack.stack import Stack, settings_of

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
    print(f"\nA settings file of your own needs these lines:\n\n{toml.written(settings_of(info))}", end="")
