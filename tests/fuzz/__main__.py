"""`make fuzz ARGS="mysql_answers --seconds 300 --seed 7"`: which target, how long, by which seed, and how."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from tests.fuzz.engine import TARGETS, guided, module_of, seeded


def main() -> int:
    asked = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    asked.add_argument("targets", nargs="*", default=TARGETS, help=", ".join(TARGETS))
    asked.add_argument("--seconds", type=float, default=60.0, help="for each target")
    asked.add_argument("--seed", type=int, default=1)
    asked.add_argument("--guided", action="store_true", help="by what is reached in the code (atheris)")
    asked.add_argument("--results", type=Path, help="a file that a line is added to for each run")
    asked.add_argument("--again", type=Path, help="only the input that a run has left in this file")
    given = asked.parse_args()
    if unknown := set(given.targets) - set(TARGETS):
        asked.error(f"{', '.join(sorted(unknown))}: there are {', '.join(TARGETS)}")
    if given.again:
        print("accepted" if module_of(given.targets[0]).tried(given.again.read_bytes()) else "refused")
        return 0
    defects = 0
    for target in given.targets:
        way = guided if given.guided and module_of(target).READS else seeded
        run = way(target, given.seed, given.seconds)
        told = f"{target}: {run.executions:,} executions in {run.seconds:.0f} s, seed {given.seed}"
        if run.defect:
            kept = Path(f"fuzz-{target}-{given.seed}.bin")
            kept.write_bytes(run.found)
            print(f"{told}; then it {run.defect}\nThe input is in {kept}: --again {kept} tries it alone.")
            defects += 1
        else:
            print(f"{told}, {run.accepted:,} accepted, no defect")
        if given.results:
            line = {key: value for key, value in asdict(run).items() if key != "found"}
            with given.results.open("a") as file:
                file.write(json.dumps(line | {"how": way.__name__}) + "\n")
    return min(defects, 1)


if __name__ == "__main__":
    sys.exit(main())
