"""The service rate of `auto` where no sale, half of them, or none but those has a key that the master lacks.

    python -m tests.benchmarks.missing_rates [--out FILE]

One worker against the embedded server, R = 200 000 products, 10 % of it as memory, windows of 125 000 sales. Keys that
are missing are drawn by the same law as the others, from as many; absences are remembered for ten seconds, as they are
without settings. The three take turns, a window each; the medians of so many windows are told.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from pipeline.generate.keys import product_codes
from pipeline.generate.zipf import ZipfDraw
from pipeline.joins import Join, Options, make
from pipeline.joins.cost.question import Stream
from tests.benchmarks import join_lab, printed

ROWS, WINDOW, MEMORY = 200_000, 125_000, 0.1
SKEWS, MISSING = (0.0, 1.0), (0.0, 0.5, 1.0)
SETTLING, COUNTED = 6, 9


class Stretch:
    """A stream with so many missing keys, and its join."""

    def __init__(self, database: join_lab.BenchDatabase, skew: float, missing: float) -> None:
        master = join_lab.master(database, ROWS)
        size = master.statistics()
        self.join: Join = make(
            "auto", master, int(MEMORY * ROWS * size.row_bytes), Options(stream=Stream(skew, WINDOW))
        )
        self.rates: list[float] = []
        self._law, self._random, self._missing = ZipfDraw(ROWS, skew), np.random.default_rng(1), missing
        self._scattered = np.random.default_rng(7).permutation(ROWS)

    def window(self) -> None:
        ranks = self._scattered[self._law.draw(self._random.random(WINDOW))]
        missing = self._random.random(WINDOW) < self._missing
        keys: pa.Array = product_codes(ranks + ROWS * missing).cast(pa.binary())
        positions, offered, began = np.arange(WINDOW), 0, time.perf_counter()
        while offered < WINDOW or self.join.pending:
            while offered < WINDOW and (taken := self.join.offer(positions[offered:], keys.slice(offered))):
                offered += taken
            self.join.step(drain=offered == WINDOW)
        self.rates.append(WINDOW / (time.perf_counter() - began))


def lines() -> Iterator[str]:
    yield from (f"{key}: {value}" for key, value in join_lab.host().items())
    yield f"{'skew':>5} {'missing':>8} {'sales/s':>9} {'slowest':>9} {'fastest':>9} {'of none missing':>16}"
    with join_lab.server([ROWS]) as database:
        for skew in SKEWS:
            stretches = {missing: Stretch(database, skew, missing) for missing in MISSING}
            for _ in range(SETTLING + COUNTED):
                for stretch in stretches.values():
                    stretch.window()
            without = 0.0
            for missing, stretch in stretches.items():
                counted = stretch.rates[SETTLING:]
                median = statistics.median(counted)
                without = without or median
                shown = " ".join(f"{rate:>9,.0f}" for rate in (median, min(counted), max(counted)))
                yield f"{skew:>5} {missing:>8.0%} {shown} {median / without:>16.2f}"


if __name__ == "__main__":
    printed.main(__doc__, lines)
