"""What the joins' benchmarks share: a database server with product tables of several sizes, and a stream of sales."""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from pipeline.bench.server.database import BenchDatabase
from pipeline.config.contracts import Contracts
from pipeline.config.measures import Secret
from pipeline.config.settings import MasterData
from pipeline.generate.keys import Sizes, product_codes
from pipeline.generate.seed import seed
from pipeline.generate.zipf import ZipfDraw
from pipeline.laptop.stack import ports
from pipeline.laptop.stack.stack import start_on_free_ports
from pipeline.master.mysql.master import MySqlMaster

RESULTS = Path(__file__).parent / "results"
PACKAGES = ("pyarrow", "numpy", "numba", "pymysql")


@contextlib.contextmanager
def server(rows: list[int], *options: str) -> Iterator[BenchDatabase]:
    """A running server with a database `r<rows>` for each size."""
    with tempfile.TemporaryDirectory(prefix="millrace-lab-") as folder:
        database = BenchDatabase(Path(folder), supervised=True)
        start_on_free_ports(database)
        for size in rows:
            database.create_database(f"r{size}")
            with database.connect("owner", f"r{size}") as connection:
                seed(connection, Sizes(size, 1, 1), progress=False)
            database.execute("ANALYZE TABLE product", role="owner", database=f"r{size}")
        if options:  # what makes the server slow would make the seeding slow
            database.stop()
            database.options = options
            start_on_free_ports(database)
        try:
            yield database
        finally:
            database.stop()


def master(database: BenchDatabase, rows: int, port: int | None = None, **settings: object) -> MySqlMaster:
    account = database.accounts.owner
    where = MasterData(
        host="127.0.0.1", port=port or database.port, user=account.user, password=Secret(account.password),
        database=f"r{rows}", **settings,
    )  # fmt: skip
    return MySqlMaster(where, Contracts().dimension("product", ""))


def sales(rows: int, skew: float, number: int, seed: int = 1) -> pa.Array:
    """Keys of sales: Zipf's law over the products, the wanted ones scattered over the table."""
    ranks = ZipfDraw(rows, skew).draw(np.random.default_rng(seed).random(number))
    scattered = np.random.default_rng(7).permutation(rows)[ranks]
    return product_codes(scattered).cast(pa.binary())


@contextlib.contextmanager
def delayed(port: int, round_trip: float) -> Iterator[int]:
    """A port before another one that makes every round trip take so much longer; a process of its own."""
    [mine] = ports.choose(1)
    command = [sys.executable, __file__, str(mine), str(port), str(round_trip / 2)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()  # it listens
        yield mine
    finally:
        process.kill()
        process.wait()


async def _proxy(mine: int, port: int, delay: float) -> None:
    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        line: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def deliver() -> None:
            while True:
                due, data = await line.get()
                await asyncio.sleep(max(0.0, due - loop.time()))
                writer.write(data)
                if not data:
                    writer.close()
                    return

        delivering = asyncio.create_task(deliver())
        while data := await reader.read(1 << 16):
            line.put_nowait((loop.time() + delay, data))
        line.put_nowait((loop.time() + delay, b""))
        await delivering

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(pump(reader, back), pump(there, writer), return_exceptions=True)

    async with await asyncio.start_server(accept, "127.0.0.1", mine) as listening:
        print("listening", flush=True)
        await listening.serve_forever()


def host() -> dict[str, object]:
    """What this was measured on."""
    return {
        "at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "load_before": os.getloadavg()[0],
        **{package: version(package) for package in PACKAGES},
    }


if __name__ == "__main__":
    asyncio.run(_proxy(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
