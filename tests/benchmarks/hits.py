"""How near the front stage's cache comes to the optimum, and what one LRU and one TinyLFU of its bytes would do.

    python -m tests.benchmarks.hits [--out FILE]

R has a million rows, computed and scattered; sales come by Zipf's law in windows of 125 000. They are counted when the
cache has settled; while it follows, for all keys change places; and when it has settled again. Nothing is timed, so a
run says the same on any machine. Columns:

    p_N        the share of the sales that the most wanted rows serve, as many as the front stage has
    hits/p_N   the sales served from its cache, as a share of that
    asked      keys asked of the master a sale: one that is missed twice in a window is asked for once
    /LRU       these, to those that an LRU with the cache's bytes asks for; (p_N): if all hits were had
    LRU/p_N    the hits of that LRU
    TLFU/p_N   and of a TinyLFU: an LRU that a newcomer enters only if it came more often than the row that would have
               to leave, by a sketch of 4-bit counters that is halved after ten sales a row

An LRU's row takes its own bytes, its key's code and index, and two links; a TinyLFU's has 8 bytes of sketch more.
Neither is charged for the memory in which it works, nor for the rows of an answer.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.compiling import numba
from pipeline.generate.zipf import ZipfDraw
from pipeline.joins import Join, Options, make
from pipeline.joins.cost.frontstage import Settings, cache_bytes
from pipeline.joins.cost.question import Stream
from pipeline.joins.parts.keyindex import KeyIndex
from pipeline.master.charged import ChargedMaster
from pipeline.master.computed import ComputedRows
from pipeline.master.disks import Disk, VirtualClock

ROWS, ROW_BYTES, WINDOW = 1_000_000, 58, 125_000
SHARES, SKEWS = (0.001, 0.01, 0.1), (0.8, 1.0, 1.2)
SETTLING, COUNTED, LEAST_WINDOWS = 100, 20, 16  # sales a cached row, but so many windows at least
LEAST_BEHIND = 2 << 20  # bytes of the join behind: a window's misses wait together
AT_ONCE = Disk(request=0.0, seek=0.0, byte=0.0)  # so nothing but look-ups is ever worth while
NEVER = 1e12  # seconds until a row is too old
LINKS, SKETCH = 8, 8  # bytes a row
TINY_PERIOD = 10  # sales a row, until the sketch is halved

Keys, Counts = npt.NDArray[np.int64], npt.NDArray[np.float64]


class Sales:
    """Ranks by Zipf's law, and the keys that they have for now."""

    def __init__(self, rows: ComputedRows, skew: float) -> None:
        self._rows, self._law = rows, ZipfDraw(rows.rows, skew)
        self._random = np.random.default_rng(1)
        self._moved = 0

    def move(self) -> None:
        """Who was wanted most is no longer."""
        self._moved += self._rows.rows // 2

    def next(self, number: int) -> Keys:
        ranks = self._law.draw(self._random.random(number))
        return self._rows.keys_of((ranks + self._moved) % self._rows.rows)


def served(join: Join, keys: Keys) -> None:
    """A window of sales, until none is pending."""
    offered, positions, column = 0, np.arange(len(keys)), pa.array(keys)
    while offered < len(keys) or join.pending:
        while offered < len(keys) and (taken := join.offer(positions[offered:], column.slice(offered))):
            offered += taken
        join.step(drain=offered == len(keys))


class FrontStaged:
    """The front stage before the fetching stage of `auto`, with a cache of so many rows."""

    def __init__(self, rows: ComputedRows, h_R: int, skew: float) -> None:  # noqa: N803
        clock = VirtualClock()
        self.master = ChargedMaster(rows, AT_ONCE, clock)
        stream = Stream(skew, WINDOW, by_integral=True)
        options = Options(
            stream=stream, settings={"cmeshjoin": Settings(h_R=h_R)},
            max_staleness=NEVER, absent_staleness=NEVER, clock=clock,
        )  # fmt: skip
        probe = make("front stage + fetch", self.master, 1 << 30, options)
        self.cache_bytes = cache_bytes(h_R, probe.workplace.question)
        memory = options.accounting.memory_for(self.cache_bytes + max(LEAST_BEHIND, self.cache_bytes / 3))
        self.join = make("front stage + fetch", self.master, memory, options)
        self.p_N = stream.hits(h_R, self.join.relation)
        behind = Stream(skew, WINDOW, by_integral=True, beyond=h_R)
        self.optimum = behind.keys(WINDOW * (1 - self.p_N), self.join.relation) / WINDOW  # keys asked a sale

    def window(self, keys: Keys) -> None:
        served(self.join, keys)

    @property
    def counts(self) -> Keys:
        """Hits, and keys asked for."""
        return np.array([self.join.statistics.hits, self.master.reads.by_kind["lookup"].rows])


class ListCache:
    """An LRU by a linked list, or a TinyLFU: row numbers only."""

    def __init__(self, rows: int, capacity: int, admits: bool) -> None:
        self.admits, self._capacity = admits, capacity
        self._before, self._after = np.full(rows + 1, -1, np.int64), np.full(rows + 1, -1, np.int64)
        self._before[rows] = self._after[rows] = rows  # the ring's head
        self._inside = np.zeros(rows, np.bool_)
        self._sketch = np.zeros(max(16, 1 << (16 * capacity - 1).bit_length()) if admits else 0, np.uint8)
        self._state = np.zeros(3, np.int64)  # rows inside, sales since the halving, hits

    def window(self, keys: Keys) -> None:
        _list_cache(
            keys // 2, self._before, self._after, self._inside, self._sketch, self._state, self._capacity,
            TINY_PERIOD * self._capacity,
        )  # fmt: skip

    @property
    def hits(self) -> int:
        return int(self._state[2])


@numba.njit
def _list_cache(
    keys: Any, before: Any, after: Any, inside: Any, sketch: Any, state: Any, capacity: int, period: int
) -> None:
    head = len(inside)
    for key in keys:
        if len(sketch):
            _count(key, sketch)
            state[1] += 1
            if state[1] >= period:
                for cell in range(len(sketch)):
                    sketch[cell] >>= 1
                state[1] //= 2
        if inside[key]:
            state[2] += 1
            after[before[key]], before[after[key]] = after[key], before[key]
        elif state[0] < capacity:
            inside[key] = True
            state[0] += 1
        else:
            last = before[head]
            if len(sketch) and _seen(key, sketch) <= _seen(last, sketch):
                continue
            after[before[last]], before[head] = head, before[last]
            inside[last], inside[key] = False, True
        before[key], after[key] = head, after[head]
        before[after[head]] = key
        after[head] = key


@numba.njit
def _cell(key: int, turn: int, cells: int) -> int:
    mixed = (np.uint64(key) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(turn) * np.uint64(
        0xC2B2AE3D27D4EB4F
    )
    mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xD6E8FEB86659FD93)
    return np.int64((mixed >> np.uint64(32)) & np.uint64(cells - 1))


@numba.njit
def _seen(key: int, sketch: Any) -> int:
    least = 15
    for turn in range(4):
        least = min(least, np.int64(sketch[_cell(key, turn, len(sketch))]))
    return least


@numba.njit
def _count(key: int, sketch: Any) -> None:
    for turn in range(4):
        cell = _cell(key, turn, len(sketch))
        if sketch[cell] < 15:
            sketch[cell] += 1


def cell(h_R: int, skew: float) -> Iterator[str]:  # noqa: N803 as in the papers
    """A line for each stretch of sales: settled, moving, moved."""
    rows = ComputedRows(ROWS, ROW_BYTES, scattered=True)
    staged, sales = FrontStaged(rows, h_R, skew), Sales(rows, skew)
    row = ROW_BYTES + KeyIndex.bytes_for(ROWS, 1) / ROWS + LINKS
    lru = ListCache(ROWS, min(ROWS, int(staged.cache_bytes / row)), admits=False)
    tiny = ListCache(ROWS, min(ROWS, int(staged.cache_bytes / (row + SKETCH))), admits=True)

    def pass_by(windows: int) -> Counts:
        """Hits of the front stage, keys that it asked for, hits of the others: each a sale."""
        before = np.array([*staged.counts, lru.hits, tiny.hits])
        for _ in range(windows):
            keys = sales.next(WINDOW)
            for cache in (staged, lru, tiny):
                cache.window(keys)
        return (np.array([*staged.counts, lru.hits, tiny.hits]) - before) / (windows * WINDOW)

    settling, counted = (max(LEAST_WINDOWS, -(-times * h_R // WINDOW)) for times in (SETTLING, COUNTED))
    pass_by(settling)
    seen = {"settled": pass_by(counted)}
    sales.move()
    seen |= {"moving": pass_by(counted), "": pass_by(settling), "moved": pass_by(counted)}
    for stretch, (hits, asked, by_lru, by_tiny) in seen.items():
        if stretch:
            yield (
                f"{h_R / ROWS:>6.1%}{skew:>5} {stretch:<8}{staged.p_N:>6.3f}{hits / staged.p_N:>9.3f}{asked:>8.3f}"
                f"{asked / (1 - by_lru):>7.2f} ({staged.optimum / (1 - by_lru):.2f})"
                f"{by_lru / staged.p_N:>10.3f}{by_tiny / staged.p_N:>10.3f}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    lines = ["  rows skew stretch     p_N hits/p_N   asked   /LRU (p_N)   LRU/p_N  TLFU/p_N"]
    print(lines[0])
    for share in SHARES:
        for skew in SKEWS:
            for line in cell(round(share * ROWS), skew):
                print(line, flush=True)
                lines.append(line)
    if given.out:
        given.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
