"""What the joins' benchmarks share: a database server with product tables of several sizes, and a stream of sales."""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from copy import deepcopy
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from pipeline.config.contracts import Contracts
from pipeline.config.measures import Secret
from pipeline.config.settings import MasterData
from pipeline.generate.keys import Sizes, product_codes
from pipeline.generate.seed import seed
from pipeline.generate.zipf import ZipfDraw
from pipeline.joins import Join
from pipeline.laptop.stack import ports
from pipeline.laptop.stack.database import Database
from pipeline.laptop.stack.stack import start_on_free_ports
from pipeline.master.mysql.master import MySqlMaster
from pipeline.master.port import Reads

RESULTS = Path(__file__).parent / "results"
PACKAGES = ("pyarrow", "numpy", "pymysql", "msgspec")
_SALES_A_CACHED_ROW = 100
_LONGEST_PIECE = 16_384  # a join takes no more at once
OFFER = 125_000  # sales a window, as worker.window_sales


class LabDatabase(Database):
    """The embedded server with options of its own."""

    options: tuple[str, ...] = ()

    def command(self) -> list[str]:
        return [*super().command(), *self.options]


@contextlib.contextmanager
def server(rows: list[int], *options: str) -> Iterator[LabDatabase]:
    """A running server with a database `r<rows>` for each size."""
    with tempfile.TemporaryDirectory(prefix="millrace-lab-") as folder:
        database = LabDatabase(Path(folder), supervised=True)
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


def master(database: LabDatabase, rows: int, port: int | None = None, **settings: object) -> MySqlMaster:
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


class Trial:
    """A join under a stream of sales, and what it did in the stretches of time that count.

    `bounded`: in windows of OFFER sales after which nothing is pending, as the job does; else an endless stream.
    """

    def __init__(self, join: Join, keys: pa.Array, bounded: bool = False) -> None:
        self.join = join
        self.sales = self.hits = 0
        self.seconds = 0.0
        self.rates: list[float] = []  # of the stretches
        self.reads = Reads()
        self._stream = _Stream(join, keys, bounded)

    def warm_up(self, least: float, most: float) -> None:
        """Who waited first has to be gone, and a cache must have seen enough sales to keep the rows it should."""
        began, stream = time.perf_counter(), self._stream
        stream.run(lambda: (took := time.perf_counter() - began) >= most or (took >= least and stream.turned))

    def run(self, seconds: float) -> None:
        reads, hits, served = deepcopy(self.join.master.reads), self.join.statistics.hits, self._stream.served
        began = time.perf_counter()
        self._stream.run(lambda: time.perf_counter() - began >= seconds)
        took, sales = time.perf_counter() - began, self._stream.served - served
        self.rates.append(sales / took)
        self.sales, self.seconds = self.sales + sales, self.seconds + took
        self.hits += self.join.statistics.hits - hits
        self.reads += self.join.master.reads - reads

    @property
    def rate(self) -> float:
        """The service rate: sales served a second of join time."""
        return self.sales / self.seconds


class _Stream:
    def __init__(self, join: Join, keys: pa.Array, bounded: bool) -> None:
        self.join, self.keys, self.bounded = join, keys, bounded
        self.offered = self.position = 0

    @property
    def served(self) -> int:
        return self.offered - self.join.pending

    @property
    def turned(self) -> bool:
        """What waited when the join was full for the first time has left it, and the cache knows its rows."""
        return self.served > max(self.join.pending, _SALES_A_CACHED_ROW * self.join.cached_rows)

    def run(self, enough: Callable[[], bool]) -> None:
        while not enough():
            if self.bounded:
                last = self.position + OFFER
                while self.position < last or self.join.pending:
                    self._fill(last)
                    self.join.step(drain=self.position == last)
            else:
                self._fill(1 << 62)
                self.join.step()

    def _fill(self, last: int) -> None:
        """Offer until the join takes no more, as the job does; the keys come round again and again."""
        while self.position < last:
            at = self.position % len(self.keys)
            piece = self.keys.slice(at, min(last - self.position, len(self.keys) - at, _LONGEST_PIECE))
            taken = self.join.offer(np.arange(self.position, self.position + len(piece)), piece)
            self.position += taken
            self.offered += taken
            if not taken:
                return


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
