"""What a small memory of the keys that exist would spare the database, beside what `auto`'s cache remembers.

    python -m tests.benchmarks.missing_keys [--out FILE]

Sales come in windows of 125 000 over an R of a million rows of 58 bytes; so many have a key that R lacks, drawn by the
same law from as many keys as R has. Asked of the master, in keys a sale, when the cache has settled:

    as it is       `auto` with all of its memory: absences share the cache with the rows
    filtered       with a Bloom filter of ten bits for each key of R (one absent key in a hundred passes for one that
                   exists), whose bytes the join does without; 'no room' where it takes more than half of the memory

Nothing is timed, so a run says the same on any machine. The filter is a sketch: it is exact but for its errors, and
free. A real one has to hear of every new key before the first sale that has it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from pipeline.generate.zipf import ZipfDraw
from pipeline.joins import Options, make
from pipeline.joins.cost.question import Stream
from pipeline.master.charged import ChargedMaster
from pipeline.master.computed import ComputedRows
from pipeline.master.disks import Disk, VirtualClock
from pipeline.master.port import UnderWay
from tests.benchmarks import printed

ROWS, ROW_BYTES, WINDOW = 1_000_000, 58, 125_000
SHARES, SKEWS, MISSING = (0.01, 0.1, 0.5), (0.0, 1.0), (0.0, 0.5, 1.0)
FILTER_BYTES, MISTAKEN = ROWS * 10 // 8, 100  # one key in so many
SETTLING, COUNTED = 12, 4  # windows
AT_ONCE = Disk(request=0.0, seek=0.0, byte=0.0)
NEVER = 1e12


class Counted(ChargedMaster):
    """Counts the keys it is asked for; with a filter, those that pass it."""

    keys_asked = 0
    filtered = False

    def begin_lookup(self, keys: pa.Array) -> UnderWay[pa.Table]:
        if self.filtered:
            numbers = np.asarray(keys)  # those of rows are even
            keys = keys.filter(pa.array((numbers % 2 == 0) | (numbers // 2 % MISTAKEN == 0)))
        self.keys_asked += len(keys)
        return super().begin_lookup(keys)


def asked(share: float, skew: float, missing: float, filtered: bool) -> float | None:
    """Keys a sale."""
    memory = int(share * ROWS * ROW_BYTES) - (FILTER_BYTES if filtered else 0)
    if memory < share * ROWS * ROW_BYTES / 2:
        return None
    rows, random, clock = ComputedRows(ROWS, ROW_BYTES, scattered=True), np.random.default_rng(1), VirtualClock()
    master = Counted(rows, AT_ONCE, clock)
    master.filtered = filtered
    stream = Stream(skew, WINDOW, absent=missing, absent_life=1e12)
    join = make("auto", master, memory, Options(
        stream=stream, max_staleness=NEVER, absent_staleness=NEVER, clock=clock,
    ))  # fmt: skip
    law, positions = ZipfDraw(ROWS, skew), np.arange(WINDOW)
    for window in range(SETTLING + COUNTED):
        if window == SETTLING:
            master.keys_asked = 0
        drawn = rows.keys_of(law.draw(random.random(WINDOW))) + (random.random(WINDOW) < missing)
        column, offered = pa.array(drawn), 0
        while offered < WINDOW or join.pending:
            while offered < WINDOW and (taken := join.offer(positions[offered:], column.slice(offered))):
                offered += taken
            join.step(drain=offered == WINDOW)
    return master.keys_asked / (COUNTED * WINDOW)


def lines() -> Iterator[str]:
    yield f"{'memory':>7} {'skew':>5} {'missing':>8} {'as it is':>9} {'filtered':>9}"
    for share in SHARES:
        for skew in SKEWS:
            for missing in MISSING:
                numbers = [asked(share, skew, missing, filtered) for filtered in (False, True)]
                shown = " ".join("  no room" if number is None else f"{number:>9.3f}" for number in numbers)
                yield f"{share:>7.0%} {skew:>5} {missing:>8.0%} {shown}"


if __name__ == "__main__":
    printed.main(__doc__, lines)
