"""Once, before the job of docker-compose.yml starts: master rows where a table has none, and the topics."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pipeline.commands import failures
from pipeline.config import settings
from pipeline.generate.keys import Sizes
from pipeline.generate.masters import MASTERS
from pipeline.generate.seed import connect, seed
from pipeline.generate.send import Sender

PARTITIONS = 4


def main() -> None:
    wanted = settings.load()
    fill_empty_tables(wanted.master, _sizes(os.environ.get("MILLRACE_SIZES", "200000,50000,500")))
    Sender(wanted.kafka.bootstrap, wanted.kafka.librdkafka).prepare(wanted.kafka.topics, PARTITIONS)
    print(f"topics {', '.join(wanted.kafka.topics)} are there")


def fill_empty_tables(server: settings.MasterData, sizes: Sizes) -> None:
    owner, password = os.environ["MILLRACE_OWNER"], Path(os.environ["MILLRACE_OWNER_PASSWORD_FILE"]).read_text().strip()
    with connect(server.host, server.port, owner, password, server.database) as connection:
        with connection.cursor() as cursor:
            has_rows = [bool(cursor.execute(f"SELECT 1 FROM {table} LIMIT 1")) for table in MASTERS]
        missing = [0 if there else rows for there, rows in zip(has_rows, sizes.by_dimension, strict=True)]
        if any(missing):
            for table in seed(connection, Sizes(*missing), progress=False):
                print(f"{table.table}: {table.rows:,} rows in {table.seconds:.1f} s")


def _sizes(text: str) -> Sizes:
    products, customers, stores = map(int, text.split(","))
    return Sizes(products, customers, stores)


if __name__ == "__main__":
    with failures.told("--debug" in sys.argv, "prepare"):
        main()
