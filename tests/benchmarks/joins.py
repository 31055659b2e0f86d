"""Every join on a real server, measured and predicted: joins.py [grid | latency | pool | operators] [seconds] [R].

Workload: the product table of R rows, sales by Zipf's law with the wanted rows scattered over the table, an endless
stream (the papers' steady state), one worker. Memory is a share of the table's size on the server (DATA_LENGTH). Every
join is told the skew, as the setting of a dimension tells it. The unit costs are calibrated before and after each cell
of the grid and the mean is taken, and the joins of a cell take turns, for a machine's speed changes from minute to
minute. `grid` crosses skew, memory and R (an R that is named is measured anew, the rest of the result stays);
`latency` puts the server 1 ms and 5 ms away; `pool` gives it a buffer pool of 2 % of R; `operators` has no server: the
front stage with all hits, and MESHJOIN's probe. Compare cells of one run with each other.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).resolve().parent))
from join_lab import RESULTS, delayed, host, master, sales, server

from pipeline import joins
from pipeline.advise.calibrate import calibrate
from pipeline.bench.server.database import BenchDatabase, small_pool
from pipeline.bench.server.real_time import RealTrial
from pipeline.bench.server.target import between
from pipeline.errors import BudgetTooSmall
from pipeline.generate.keys import product_codes
from pipeline.generate.zipf import ZipfDraw
from pipeline.joins import JOINS, Options, recipe, relation
from pipeline.joins.cost.inlj import PER_TUPLE
from pipeline.joins.cost.question import Stream
from pipeline.joins.cost.unit_costs import UnitCosts
from pipeline.joins.parts.keycodes import KeyCoder
from pipeline.joins.parts.waiting import WaitingSales
from pipeline.master.memory import MemoryMaster

SKEWS, SHARES, ROWS = (0.0, 0.5, 1.0), (0.001, 0.01, 0.1), (20_000, 200_000, 2_000_000)
VARIANTS = (*JOINS, PER_TUPLE)
ENDLESS = 1 << 40
POOL_JOINS = ("auto", "inlj", "r-meshjoin", "hybridjoin")
_STRETCHES = 5  # of a join's time in a cell of the grid
_SALES = 4_000_000  # before they come round again: fewer would flatter the caches
_LONGEST_WARM_UP = 15.0  # seconds


@dataclass
class Cell:
    """One measurement."""

    rows: int
    share: float
    skew: float
    join: str
    memory: int
    rate: float | None = None  # sales a second; None: refused
    predicted: float | None = None
    rates: list[float] = field(default_factory=list)  # of the stretches that `rate` is made of
    hits: float = 0.0
    queries: int = 0
    rows_read: int = 0
    refused: str = ""


def measured(database: BenchDatabase, rows: int, share: float, skew: float, names: Sequence[str], keys: pa.Array,
             costs: UnitCosts, seconds: float, stretches: int = 1, port: int | None = None) -> list[Cell]:  # fmt: skip
    """One cell of a table: all of these joins, each warmed up; then they take turns."""
    memory = int(table_bytes(database, rows) * share)
    with ExitStack() as closing:
        trials: dict[str, RealTrial] = {}
        cells = {name: Cell(rows, share, skew, name, memory) for name in names}
        for name, cell in cells.items():
            registered, options = told(name, skew, costs)
            reads = master(database, rows, port)
            closing.callback(reads.close)
            try:
                trials[name] = RealTrial(joins.make(registered, reads, memory, options), keys)
                trials[name].warm_up(1.0, _LONGEST_WARM_UP)
            except BudgetTooSmall as error:
                cell.refused = str(error)
        for _ in range(stretches):
            for trial in trials.values():
                trial.run(seconds / stretches)
    for name, trial in trials.items():
        cell = cells[name]
        cell.rate, cell.rates, cell.hits = trial.rate, trial.rates, trial.hits / max(1, trial.sales)
        cell.queries = trial.reads.total.queries
        cell.rows_read = trial.reads.total.rows
    return list(cells.values())


def tell(cells: list[Cell]) -> None:
    for c in cells:
        rates = f"{c.rate:,.0f} sales/s, predicted {c.predicted:,.0f}" if c.rate else "refused"
        print(f"R {c.rows:>9,}  memory {c.share:6.1%}  skew {c.skew}  {c.join:<24}{rates}", flush=True)


def told(join: str, skew: float, costs: UnitCosts) -> tuple[str, Options]:
    name = "inlj" if join == PER_TUPLE else join
    settings = {name: recipe(name).main.Settings(batch=1)} if join == PER_TUPLE else {}
    return name, Options(settings=settings, costs=costs, stream=Stream(e=skew, batch=ENDLESS))


def predict(cells: list[Cell], database: BenchDatabase, costs: UnitCosts) -> None:
    """What the models say with these unit costs."""
    reads = master(database, cells[0].rows)
    size = reads.statistics()
    known = relation(size, KeyCoder(reads.key_type, size.key_bytes).words, reads.unique)
    reads.close()
    for cell in cells:
        if cell.rate:
            name, options = told(cell.join, cell.skew, costs)
            cell.predicted = joins.predict(name, cell.memory, known, options).mu
    tell(cells)


def table_bytes(database: BenchDatabase, rows: int) -> int:
    with database.connect("owner", f"r{rows}") as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT DATA_LENGTH FROM information_schema.TABLES "
            "WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'product'"
        )
        return int(cursor.fetchone()[0])


def grid(seconds: float, rows: int) -> dict[str, object]:
    cells, costs = [], {}
    with server([rows]) as database:
        for skew in SKEWS:
            keys = sales(rows, skew, _SALES)
            for share in SHARES:
                before = calibrated(database, rows, share)
                found = measured(database, rows, share, skew, VARIANTS, keys, before, seconds, _STRETCHES)
                after = calibrated(database, rows, share)
                costs[f"skew {skew}, memory {share}"] = between(before, after)
                predict(found, database, between(before, after))
                cells += found
    return {"costs": {at: asdict(units) for at, units in costs.items()}, "cells": [asdict(c) for c in cells]}


def calibrated(database: BenchDatabase, rows: int, share: float, port: int | None = None) -> UnitCosts:
    """For joins with such a share of the table's size as memory."""
    reads = master(database, rows, port)
    try:
        memory = int(table_bytes(database, rows) * share)
        return calibrate(reads, say=lambda line: print(f"  {line}", flush=True), memory=memory)
    finally:
        reads.close()


def latency(seconds: float) -> dict[str, object]:
    rows, share, found = ROWS[-1], 0.01, []
    with server([rows]) as database:
        keys = sales(rows, 1.0, _SALES)
        for round_trip in (0.0, 0.001, 0.005):
            with delayed(database.port, round_trip) as port:
                at = port if round_trip else None
                costs = calibrated(database, rows, share, at)
                cells = measured(database, rows, share, 1.0, ("auto", "inlj", PER_TUPLE), keys, costs, seconds, port=at)
                predict(cells, database, costs)
                found += [{"round_trip": round_trip, **asdict(cell)} for cell in cells]
    return {"cells": found}


def pool(seconds: float) -> dict[str, object]:
    rows, found = ROWS[-1], []
    options = small_pool(max(5 << 20, int(2_000_000 * 100 * 0.02)))
    for given in ((), options):
        with server([rows], *given) as database:
            costs = calibrated(database, rows, 0.1)
            for skew in (0.0, 1.0):
                keys = sales(rows, skew, _SALES)
                cells = measured(database, rows, 0.1, skew, POOL_JOINS, keys, costs, seconds)
                predict(cells, database, costs)
                found += [{"buffer_pool": "2 % of R" if given else "all of R", **asdict(cell)} for cell in cells]
    return {"cells": found}


def operators(seconds: float) -> dict[str, object]:
    """On one core, without I/O: sales a second of the front stage when all hit, rows a second of MESHJOIN's probe."""
    random, found = np.random.default_rng(1), {}
    for kind, keys in (
        ("int64", pa.array(np.arange(20_000))),
        ("binary", product_codes(np.arange(20_000)).cast(pa.binary())),
    ):
        rows = pa.table({"key": keys, "surrogate_key": np.arange(20_000), "updated_at": pa.nulls(20_000, pa.int64())})
        join = joins.make("front stage + inlj", MemoryMaster(rows), 16 << 20)
        sold = keys.take(pa.array(ZipfDraw(20_000, 1.0).draw(random.random(1_000_000))))
        trial = RealTrial(join, sold)
        trial.warm_up(3.0, 60.0)
        trial.run(seconds)
        found[f"front stage, {kind}: sales/s"] = trial.rate
        coder = KeyCoder(keys.type, 10)
        for h in (10_000, 100_000, 1_000_000):
            waiting = WaitingSales(h, coder.words)
            other = keys if kind == "int64" else None
            strangers = pa.array(np.arange(h) + 10**7) if other is not None else product_codes(np.arange(h) + 10**6)
            waiting.admit(np.arange(h), coder.encode(strangers.cast(keys.type)))
            for rows_read in (125, 10_000):
                took = []
                for first in range(0, 20_000, rows_read):
                    page = keys.slice(first, rows_read)
                    began = time.perf_counter()
                    waiting.match(coder.encode(page, remember=False))
                    took.append(time.perf_counter() - began)
                found[f"probe, {kind}, {rows_read:,} of {h:,} waiting: rows/s"] = rows_read / statistics.median(took)
    for name, rate in found.items():
        print(f"{name:<45}{rate:,.0f}")
    return {"rates": found}


def plot(cells: list[dict[str, object]], file: Path) -> None:
    """Measured against predicted, and the rates over the grid."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(3, 3, figsize=(15, 11), sharey=True)
    for row, rows in enumerate(ROWS):
        for column, skew in enumerate(SKEWS):
            axis = axes[row][column]
            for number, join in enumerate(VARIANTS):
                at = [c for c in cells if c["rows"] == rows and c["skew"] == skew and c["join"] == join and c["rate"]]
                axis.plot([c["share"] for c in at], [c["rate"] for c in at], "o-", color=f"C{number}", label=join)
                axis.plot([c["share"] for c in at], [c["predicted"] for c in at], "x:", color=f"C{number}", alpha=0.6)
            axis.set(xscale="log", yscale="log", title=f"R = {rows:,}, skew {skew}", xlabel="memory, share of R")
            axis.grid(alpha=0.3)
    axes[0][0].set_ylabel("sales a second (x: predicted)")
    axes[0][0].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(file, dpi=70)


def main() -> None:
    what = sys.argv[1] if len(sys.argv) > 1 else "grid"
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 2.0
    result = {"host": host(), "seconds": seconds}
    file = RESULTS / f"joins_{what}.json"
    if what == "grid":
        sizes = [int(size) for size in sys.argv[3:]] or ROWS
        tables = {str(size): result | grid(seconds, size) for size in sizes}
        known = json.loads(file.read_text()) if file.exists() else {}
        result = dict(sorted((known | tables).items(), key=lambda table: int(table[0])))
        plot([cell for table in result.values() for cell in table["cells"]], RESULTS / "joins_grid.png")
    else:
        result |= {"latency": latency, "pool": pool, "operators": operators}[what](seconds)
    file.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
