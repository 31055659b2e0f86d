"""What one look at a byte costs, by how many keys wait: the least that any table of waiting keys could cost a row.

    python -m tests.benchmarks.one_look

Rows come by ten thousand, whole numbers that no key has. `a byte`: each looks at one byte of a filter with a byte a
key, one bit of it marked for each key, and at nothing else; so many pass. `a half` has a byte for two keys. `index`:
the hash table as it is. Nanoseconds a row, medians of forty reads by three turns.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.compiling import compiled, numba
from pipeline.joins.parts.keyindex import KeyIndex
from pipeline.joins.parts.mixing import mixed

ROWS, READS, TURNS, WAITING = 10_000, 40, 3, (10_000, 100_000, 1_000_000)
_HALF, _BITS = np.uint64(32), np.uint64(7)
_Codes = numba.types.Array(numba.uint64, 2, "C", readonly=True)
_Filter = numba.types.Array(numba.uint8, 1, "C")


@compiled(numba.int64(_Codes, _Filter))
def passing(codes: Any, marks: Any) -> Any:
    number, found = np.uint64(len(marks)), 0
    for row in range(len(codes)):
        at = mixed(codes, np.uint64(row))
        found += (marks[((at >> _HALF) * number) >> _HALF] >> (at & _BITS)) & 1
    return found


@compiled(numba.void(_Codes, _Filter))
def mark(codes: Any, marks: Any) -> None:
    number = np.uint64(len(marks))
    for row in range(len(codes)):
        at = mixed(codes, np.uint64(row))
        marks[((at >> _HALF) * number) >> _HALF] |= np.uint8(1) << np.uint8(at & _BITS)


def keys(random: np.random.Generator, number: int, of: int) -> npt.NDArray[np.uint64]:
    drawn = random.integers(0, 2**62, number).astype(np.uint64) | np.uint64(of << 62)
    return np.ascontiguousarray(drawn.reshape(-1, 1))


def looks(waiting: npt.NDArray[np.uint64]) -> dict[str, Callable[[npt.NDArray[np.uint64]], Any]]:
    index = KeyIndex(len(waiting), 1)
    index.add(waiting)
    filters = {"a byte": np.zeros(len(waiting), np.uint8), "a half": np.zeros(len(waiting) // 2, np.uint8)}
    for marks in filters.values():
        mark(waiting, marks)
    return {
        **{name: lambda rows, marks=marks: passing(rows, marks) for name, marks in filters.items()},
        "index": lambda rows: np.count_nonzero(index.find(rows) >= 0),
    }


def main() -> None:
    random = np.random.default_rng(1)
    reads = [keys(random, ROWS, of=0) for _ in range(READS)]
    of_each = {number: looks(keys(random, number, of=2)) for number in WAITING}
    for turn in range(TURNS):
        for number, tables in of_each.items():
            for name, look in tables.items():
                took, passed = [], 0
                for rows in reads:
                    began = time.perf_counter()
                    passed += int(look(rows))
                    took.append((time.perf_counter() - began) / ROWS * 1e9)
                share = passed / ROWS / READS
                print(
                    f"turn {turn + 1}, {number:>9,} wait, {name:<7} {statistics.median(took):5.2f} ns, {share:.3f} pass"
                )


if __name__ == "__main__":
    main()
