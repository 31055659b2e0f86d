"""What the cost models foresee beside what the charged machines measure, over a grid; each number and their ratio.

    python -m tests.benchmarks.predictions --joins hybridjoin x-hybridjoin --rows 200000 --shares 0.05 0.1 --out FILE

Columns: the case; then foreseen, measured and their ratio of the service rate (sales a second), the mean processing
time (seconds), and the queries of the master for each sale. A star: one of the ratios is off by more than 15 %. A case
whose memory is too small for its join is left out. A case of 20 000 rows takes a second or two, others up to a minute.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from pipeline.bench.charged.foreseen import compare, grid
from pipeline.bench.charged.machines import MACHINES
from pipeline.joins import JOINS

_WITHIN = 0.15


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--joins", nargs="+", default=list(JOINS))
    parser.add_argument("--rows", type=int, nargs="+", default=[20_000, 200_000, 2_000_000])
    parser.add_argument("--shares", type=float, nargs="+", default=[0.005, 0.01, 0.02, 0.05, 0.1])
    parser.add_argument("--skews", type=float, nargs="+", default=[0.0, 0.5, 0.8, 1.0, 1.2])
    parser.add_argument("--absent", type=float, default=0.0)
    parser.add_argument("--machine", default="hybridjoin-2011", choices=MACHINES)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    cases = grid(tuple(given.joins), tuple(given.rows), tuple(given.shares), tuple(given.skews), absent=given.absent)
    for case in cases:
        seen = compare(case, MACHINES[given.machine])
        if seen is None:
            continue
        off = any(abs(pair.ratio - 1) > _WITHIN for pair in (seen.rate, seen.processing_time, seen.queries))
        line = f"{seen}{' *' if off else ''}"
        print(line, flush=True)
        if given.out:
            with given.out.open("a", encoding="utf-8") as table:
                table.write(f"{line}\n")


if __name__ == "__main__":
    main()
