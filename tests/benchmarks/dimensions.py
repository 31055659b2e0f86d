"""Three dimensions beside one, and their joins by turns beside one after another: dimensions.py [R] [seconds] [turns].

`enrich` as a task calls it, in windows of 2 000 and 50 000 sales, without Kafka and without a warehouse; each dimension
is R rows of its own keys, by `auto` with 1 % of them, on one server, here and 1 ms away. Each sale wants another row
of each dimension, by Zipf's law with exponent 1. All ways take turns; what is told is the median.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).resolve().parent))
from join_lab import RESULTS, delayed, host, master, sales, server

from pipeline import columns, enrich, joins
from pipeline.bench.server.database import BenchDatabase
from pipeline.config.contracts import Contracts
from pipeline.config.settings import load
from pipeline.enrich import Dimension
from pipeline.joins import Options
from pipeline.joins.cost.question import Stream

_SALES, _WINDOWS, _AWAY = 1_000_000, (2_000, 50_000), (0.0, 0.001)
_SHARE, _ROW_BYTES = 0.01, 100
_WARM_UP = 5.0  # seconds
_LIMITS = load(environment={}).worker

Way = Callable[[pa.Table], Iterator[pa.Table]]


def dimensions(database: BenchDatabase, rows: int, window: int, port: int | None) -> list[Dimension]:
    contract = Contracts().dimension("product", "")
    made = []
    for number in range(3):
        [part] = contract.natural_key
        own = replace(contract, name=f"product_{number}", natural_key=[replace(part, field=f"code_{number}")])
        options = Options(stream=Stream(1.0, batch=window), connections=2)
        join = joins.make("auto", master(database, rows, port), int(rows * _ROW_BYTES * _SHARE), options)
        made.append(Dimension(own, join))
    return made


def stream(rows: int) -> pa.Table:
    codes = {columns.of_sale(f"code_{n}"): sales(rows, 1.0, _SALES, seed=n).cast(pa.string()) for n in range(3)}
    return pa.table({columns.TIMESTAMP: pa.array(np.zeros(_SALES, np.int64), pa.timestamp("us", tz="UTC")), **codes})


def ways(database: BenchDatabase, rows: int, window: int, port: int | None) -> dict[str, Way]:
    """Each with joins of its own, which learn in their own time."""

    def made() -> list[Dimension]:
        return dimensions(database, rows, window, port)

    one, by_turns, in_line = made()[:1], made(), made()
    return {
        "one dimension": lambda window: enrich.enrich(window, one, _LIMITS),
        "three by turns": lambda window: enrich.enrich(window, by_turns, _LIMITS),
        "three one after another": lambda window: enrich._one_after_another(window, in_line, _LIMITS),
    }


class Running:
    """A way along the stream, window after window, from where it stopped."""

    def __init__(self, way: Way, stream: pa.Table, window: int) -> None:
        self._way, self._stream, self._window, self._at = way, stream, window, 0

    def rate(self, seconds: float) -> float:
        """Sales a second."""
        began, done = time.monotonic(), 0
        while time.monotonic() - began < seconds:
            if self._at + self._window > len(self._stream):
                self._at = 0
            for table in self._way(self._stream.slice(self._at, self._window)):
                done += len(table)
            self._at += self._window
        return done / (time.monotonic() - began)


def main(rows: int, seconds: float, turns: int) -> None:
    told, cells = stream(rows), []
    with server([rows]) as database:
        for away in _AWAY:
            with delayed(database.port, away) as port:
                for window in _WINDOWS:
                    running = {
                        name: Running(way, told, window)
                        for name, way in ways(database, rows, window, port if away else None).items()
                    }
                    for each in running.values():
                        each.rate(_WARM_UP)
                    rates: dict[str, list[float]] = {name: [] for name in running}
                    for _ in range(turns):
                        for name, each in running.items():
                            rates[name].append(each.rate(seconds))
                    median = {name: statistics.median(of) for name, of in rates.items()}
                    cells.append({"round_trip": away, "window": window, "rates": rates, "median": median})
                    print(away, window, {name: f"{rate:,.0f}" for name, rate in median.items()}, flush=True)
    file = RESULTS / "dimensions.json"
    file.write_text(json.dumps({"host": host(), "rows": rows, "cells": cells}, indent=1) + "\n")


if __name__ == "__main__":
    main(
        int(sys.argv[1]) if len(sys.argv) > 1 else 2_000_000,
        float(sys.argv[2]) if len(sys.argv) > 2 else 4.0,
        int(sys.argv[3]) if len(sys.argv) > 3 else 5,
    )
