"""What a small memory of the keys that exist spares the database, beside what `auto`'s cache remembers.

    python -m tests.benchmarks.missing_keys [--out FILE]

Sales come in windows of 125 000, one a second, over an R of a million rows of 58 bytes; so many have a key that R
lacks, drawn by the same law from as many keys as R has. Asked of the master, in keys a sale, when all has settled:

    as it was      `auto` with all of its memory and no filter: absences share the cache with the rows
    sketched       with a Bloom filter of ten bits for each key of R (one absent key in a hundred passes for one that
                   exists), whose bytes the join does without; 'no room' where it takes more than half of the memory.
                   It is exact but for its errors, there from the beginning, and free
    as it is       `auto` as it comes, with a feed that tells of no change: it makes its filter if it finds that worth
                   while, of its own memory, and reads R's keys for it. Its cache has seen those windows more
    since          the window from which on that filter answered; '-': none did in 80 (where there is no room, in 16)

Nothing is timed: by the clock of the join a key that is asked for takes 3.5 µs, what `UnitCosts` guesses, and nothing
else takes time. So a run says the same on any machine.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from pipeline.generate.zipf import ZipfDraw
from pipeline.joins import Options, make
from pipeline.joins.auto import Settings
from pipeline.joins.cost.question import Stream
from pipeline.joins.cost.unit_costs import UnitCosts
from pipeline.master.charged import ChargedMaster
from pipeline.master.computed import ComputedRows
from pipeline.master.disks import Disk, VirtualClock
from pipeline.master.port import UnderWay
from tests.benchmarks import printed

ROWS, ROW_BYTES, WINDOW = 1_000_000, 58, 125_000
SHARES, SKEWS, MISSING = (0.01, 0.1, 0.5), (0.0, 1.0), (0.0, 0.5, 1.0)
FILTER_BYTES, MISTAKEN = ROWS * 10 // 8, 100  # one key in so many
SETTLING, COUNTED, PATIENCE = 12, 4, 80  # windows
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
        self.clock.advance(len(keys) * UnitCosts().overlapped.item)
        return super().begin_lookup(keys)


class Trial:
    """A join and its sales."""

    def __init__(
        self, memory: int, skew: float, missing: float, has_filter: bool = False, sketched: bool = False
    ) -> None:
        self._rows, self._random, self._clock = (
            ComputedRows(ROWS, ROW_BYTES, scattered=True), np.random.default_rng(1), VirtualClock(),
        )  # fmt: skip
        self.master = Counted(self._rows, AT_ONCE, self._clock)
        self.master.filtered = sketched
        self.join = make("auto", self.master, memory, Options(
            stream=Stream(skew, WINDOW, absent=missing, absent_life=1e12), max_staleness=NEVER, absent_staleness=NEVER,
            clock=self._clock, settings={"auto": Settings(key_filter=has_filter)},
        ))  # fmt: skip
        self._law, self._missing = ZipfDraw(ROWS, skew), missing

    def windows(self, number: int) -> float:
        """Keys asked for, a sale."""
        before, positions = self.master.keys_asked, np.arange(WINDOW)
        for _ in range(number):
            self._clock.advance(1.0)
            self.join.informed(seconds_ago=0.0)
            ranks = self._law.draw(self._random.random(WINDOW))
            column = pa.array(self._rows.keys_of(ranks) + (self._random.random(WINDOW) < self._missing))
            offered = 0
            while offered < WINDOW or self.join.pending:
                while offered < WINDOW and (taken := self.join.offer(positions[offered:], column.slice(offered))):
                    offered += taken
                self.join.step(drain=offered == WINDOW)
        return (self.master.keys_asked - before) / (number * WINDOW)

    def settled(self) -> float:
        self.windows(SETTLING)
        return self.windows(COUNTED)

    def until_it_answers(self) -> int | None:
        """The window; None: it will not."""
        for window in range(PATIENCE):
            if self.join.knows_all_keys:
                return window
            self.windows(1)
        return None


def lines() -> Iterator[str]:
    yield f"{'memory':>7} {'skew':>5} {'missing':>8} {'as it was':>9} {'sketched':>9} {'as it is':>9} {'since':>6}"
    for share in SHARES:
        for skew in SKEWS:
            for missing in MISSING:
                memory = int(share * ROWS * ROW_BYTES)
                left = memory - FILTER_BYTES
                sketch = Trial(left, skew, missing, sketched=True).settled() if left >= memory / 2 else None
                real = Trial(memory, skew, missing, has_filter=True)
                since = None if sketch is None else real.until_it_answers()
                numbers = [Trial(memory, skew, missing).settled(), sketch, real.settled()]
                shown = " ".join("  no room" if number is None else f"{number:>9.3f}" for number in numbers)
                yield f"{share:>7.0%} {skew:>5} {missing:>8.0%} {shown} {'-' if since is None else since:>6}"


if __name__ == "__main__":
    printed.main(__doc__, lines)
