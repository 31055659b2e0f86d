"""`auto` beside the loop that one would write by hand, on one server, by turns: hand_loop.py [R] [seconds] [turns].

The loop takes 5 000 sales at a time, looks their keys up in an LRU cache of 20 000 rows, asks MySQL for the others in
one `IN` list by PyMySQL, and has a row for each sale in the end: what a good evening's work gives. `auto` has 1 % of
R's bytes. Both get the same stream, by Zipf's law with exponent 1, the wanted rows scattered over the table.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path

import pyarrow as pa
import pymysql

sys.path.insert(0, str(Path(__file__).resolve().parent))
from join_lab import RESULTS, host, master, sales, server
from look_up import LookUp

from pipeline import joins
from pipeline.advise.calibrate import calibrate
from pipeline.bench.server.real_time import RealTrial
from pipeline.joins import Options
from pipeline.joins.cost.question import Stream

CACHED_ROWS, BATCH, SKEW, SHARE = 20_000, 5_000, 1.0, 0.01
COLUMNS = ("product_key", "updated_at", "category", "brand")
_SALES = 8_000_000
_WARM_UP = 15.0  # seconds


class HandLoop:
    """Batches of keys, looked up."""

    def __init__(self, connection: pymysql.Connection, keys: pa.Array) -> None:
        self._keys, self._at = keys, 0
        self._product = LookUp(connection.cursor(), "product", "product_code", COLUMNS, CACHED_ROWS)
        self.sales = 0

    @property
    def asked(self) -> int:
        return self._product.asked

    def run(self, seconds: float) -> float:
        """Sales a second."""
        began, before = time.monotonic(), self.sales
        while time.monotonic() - began < seconds:
            if self._at + BATCH > len(self._keys):
                self._at = 0
            keys = [key.decode() for key in self._keys.slice(self._at, BATCH).to_pylist()]
            self._at += BATCH
            rows = self._product.rows(keys)
            joined = [rows.get(key) for key in keys]
            self.sales += len(joined)
        return (self.sales - before) / (time.monotonic() - began)


def main(rows: int, seconds: float, turns: int) -> None:
    keys = sales(rows, SKEW, _SALES)
    with server([rows]) as database, database.connect("owner", f"r{rows}") as connection:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT DATA_LENGTH FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME = 'product'",
                [f"r{rows}"],
            )
            memory = int(cursor.fetchone()[0] * SHARE)
        reads = master(database, rows)
        costs = calibrate(reads, memory=memory)
        options = Options(costs=costs, stream=Stream(e=SKEW, batch=1 << 40))
        auto = RealTrial(joins.make("auto", reads, memory, options), keys)
        loop = HandLoop(connection, keys)
        auto.warm_up(1.0, _WARM_UP)
        loop.run(_WARM_UP)
        rates: dict[str, list[float]] = {"auto": [], "loop": []}
        for turn in range(turns):
            auto.run(seconds)
            rates["auto"].append(auto.rates[-1])
            rates["loop"].append(loop.run(seconds))
            print(f"turn {turn + 1}: auto {rates['auto'][-1]:,.0f}, loop {rates['loop'][-1]:,.0f} sales/s", flush=True)
        predicted = joins.predict("auto", memory, auto.join.relation, options)
        reads.close()
    median = {name: statistics.median(of) for name, of in rates.items()}
    told = {
        "host": host(), "rows": rows, "memory": memory, "rates": rates, "median": median,
        "ratio": median["auto"] / median["loop"], "predicted": predicted.mu, "parameters": predicted.parameters,
        "auto hits": auto.hits / max(1, auto.sales), "loop asked a sale": loop.asked / loop.sales,
        "auto asked": {kind: [count.queries, count.rows] for kind, count in auto.reads.by_kind.items()},
    }  # fmt: skip
    print(json.dumps(told, indent=1, default=str))
    if rows >= 1_000_000:
        (RESULTS / "hand_loop.json").write_text(json.dumps(told, indent=1, default=str) + "\n")


if __name__ == "__main__":
    given = sys.argv[1:] + [None] * 3
    main(int(given[0] or 2_000_000), float(given[1] or 5), int(given[2] or 5))
