"""What following the master's binary log costs, and how late a change is told: feed.py [--changes N] [--beside PYTHON].

A table of 200 000 products. First N rows are changed, in transactions of one row and of a hundred, and the log is read
from before them: processor time a change. Then a writer changes rows at a steady rate, and each change's way from the
statement to the feed's word is timed. `--beside` names a Python that has mysql-replication: it reads the same log, too.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
from join_lab import RESULTS, host

from pipeline.config.contracts import Contracts
from pipeline.config.measures import Secret
from pipeline.config.settings import MasterData
from pipeline.generate.keys import Sizes, product_codes
from pipeline.generate.seed import seed
from pipeline.laptop.stack.database import MASTER, Database
from pipeline.laptop.stack.stack import start_on_free_ports
from pipeline.master.open import open_feed
from tests.kit.mysql_server import asked_for

ROWS = 200_000
CODES = sorted(product_codes(np.arange(ROWS)).to_pylist())
RATES = (200, 5_000)  # changes a second
_SECONDS = 10

_LIBRARY = """
import json, sys, time
from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.row_event import UpdateRowsEvent
given = json.loads(sys.argv[1])
reader = BinLogStreamReader(
    connection_settings=given["connection"], server_id=4711, resume_stream=True, blocking=True,
    log_file=given["file"], log_pos=given["offset"], only_events=[UpdateRowsEvent], only_tables=["product"],
    enable_logging=False,
)
read, began = 0, None
for event in reader:
    began = time.process_time() if began is None else began
    read += sum(1 for row in event.rows if row["after_values"])
    if read >= given["changes"]:
        break
print(json.dumps(time.process_time() - began))
"""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--changes", type=int, default=50_000)
    options.add_argument("--beside", help="a Python with mysql-replication")
    options.add_argument("--output", type=Path, default=RESULTS / "feed.json")
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="millrace-feed-") as folder:
        database = Database(Path(folder), supervised=True, program=asked_for)
        start_on_free_ports(database)
        try:
            with database.connect() as connection:
                seed(connection, Sizes(ROWS, 1, 1), progress=False)
            found = {
                "host": host(), "server": database.kind, "changes": given.changes,
                "microseconds of processor a change": [
                    reading(database, given.changes, many, given.beside) for many in (1, 100)
                ],
                "seconds from statement to told": [delays(database, rate) for rate in RATES],
            }  # fmt: skip
        finally:
            database.stop()
    known = json.loads(given.output.read_text()) if given.output.exists() else {}
    given.output.write_text(json.dumps(known | {database.kind: found}, indent=1) + "\n")
    print(json.dumps(found, indent=1))


def settings(database: Database) -> MasterData:
    account = database.accounts.reader
    return MasterData(
        host="127.0.0.1", port=database.port, user=account.user, password=Secret(account.password), database=MASTER
    )


def feed_of(database: Database):
    return open_feed(settings(database), {"product": Contracts().dimension("product")})


def update(cursor, first: int, many: int) -> None:
    cursor.execute(
        f"UPDATE product SET brand = LEFT(UUID(), 8) WHERE product_code >= '{CODES[first]}' "
        f"ORDER BY product_code LIMIT {many}"
    )


def reading(database: Database, changes: int, many: int, library: str | None) -> dict[str, object]:
    place = next(feed_of(database).follow()).place
    with database.connect() as connection, connection.cursor() as cursor:
        for first in range(0, changes, many):
            update(cursor, first % (ROWS - 2 * many), many)
    told, began = 0, time.process_time()
    for piece in feed_of(database).follow(place):
        told += len(piece.keys.get("product", ()))
        if told >= 2 * changes:  # as it was, and as it is
            break
    row: dict[str, object] = {"rows a transaction": many, "ours": (time.process_time() - began) / changes * 1e6}
    if library:
        file, _, offset = place.partition("/")[2].rpartition(":")
        account = database.accounts.reader
        told_to_it = {
            "connection": {
                "host": "127.0.0.1", "port": database.port, "user": account.user, "passwd": account.password,
            },
            "file": file, "offset": int(offset), "changes": changes,
        }  # fmt: skip
        said = subprocess.check_output([library, "-c", _LIBRARY, json.dumps(told_to_it)], text=True)
        row["mysql-replication"] = json.loads(said) / changes * 1e6
    return row


def delays(database: Database, rate: int) -> dict[str, object]:
    """A writer commits in transactions that keep the rate; each has a row that no other has, and a time."""
    begun: dict[str, float] = {}
    many, done = max(1, rate // 200), threading.Event()

    def write() -> None:
        began = time.monotonic()
        with database.connect() as connection, connection.cursor() as cursor:
            for number in range(_SECONDS * rate // many):
                first = number * many % (ROWS - 2 * many)
                begun[CODES[first]] = time.monotonic()  # the feed may be quicker than the server's answer
                update(cursor, first, many)
                time.sleep(max(0.0, began + number * many / rate - time.monotonic()))
        done.set()

    waited: list[float] = []
    pieces = feed_of(database).follow()
    next(pieces)
    began, cpu = time.monotonic(), time.thread_time()
    threading.Thread(target=write, daemon=True).start()
    for piece in pieces:
        now = time.monotonic()
        told = {key.decode() for key in piece.keys["product"].to_pylist()} if piece.keys else set()
        waited += [now - begun.pop(key) for key in told & begun.keys()]
        if done.is_set() and not begun:
            break
    waited.sort()
    return {
        "changes a second": rate, "transactions": len(waited), "p50": waited[len(waited) // 2],
        "p99": waited[len(waited) * 99 // 100], "longest": waited[-1],
        "cores": (time.thread_time() - cpu) / (time.monotonic() - began),
    }  # fmt: skip


if __name__ == "__main__":
    main()
