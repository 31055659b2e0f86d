"""How long the cost models look for a split, over a grid of cases, and whether they choose what another commit chose.

    python tests/benchmarks/split_search.py /tmp/before.pickle                       # in a clone of the other commit
    python tests/benchmarks/split_search.py /tmp/after.pickle --beside /tmp/before.pickle

Each join, alone and behind a front stage; R of 40 to 2 M rows, scattered and by frequency; sales by Zipf 0 to 1.3 in
windows of 1 000 and 125 000, some absent; memory from the least to 0.6 of R. Of each join's cases some are drawn.
"""

from __future__ import annotations

import argparse
import pickle
import random
import sys
import time
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2]))  # this tree's, whatever is installed

from pipeline.joins import Options, least_memory, recipe, with_front_stage
from pipeline.joins.cost.frontstage import behind
from pipeline.joins.cost.question import Relation, Stream

ALONE = ("hybridjoin", "x-hybridjoin", "partitioned", "ssij", "meshjoin", "r-meshjoin", "auto", "cmeshjoin")
STAGED = tuple(with_front_stage(n) for n in ("inlj", "hybridjoin", "x-hybridjoin", "partitioned", "ssij", "meshjoin"))
CASES = {"hybridjoin": 200, "x-hybridjoin": 200, "front stage + hybridjoin": 100, "front stage + x-hybridjoin": 60}
USUAL_CASES = 80
STREAMS = [
    Stream(e, batch, absent) for e in (0.0, 0.5, 1.0, 1.3) for batch in (1_000, 125_000) for absent in (0.0, 0.2)
]
STREAMS += [replace(stream, life=50_000.0) for stream in STREAMS[4:6]] + [Stream(absent=0.1, absent_life=20_000.0)]
MEMORY = (700, 20_000, 0.01, 0.1, 0.6)  # bytes above the least, or a share of R
ROW = 60


class Chosen(NamedTuple):
    split: object  # of the front stage, if there is one
    inner: object  # of the join behind it
    mu: float
    seconds: float


def chosen(name: str, rows: int, stream: Stream, order: Any, memory: float, next: str, buffers: int) -> Chosen:
    of = recipe(name)
    settings = {of.main.name: of.main.Settings(next=next, buffers=buffers)} if "hybrid" in name else {}
    options = Options(stream=stream, order=order, settings=settings)
    relation = Relation(R_t=rows, v_R=ROW, words=1, row_bytes=2 * ROW + 32)
    least = least_memory(name, relation, options)
    question = of.question(int(least + memory if memory > 1 else max(least, memory * rows * ROW)), relation, options)
    began = time.perf_counter()
    split, mu = of.model.split(question), of.model.predict(question).mu
    seconds = time.perf_counter() - began
    inner = of.model.behind.split(behind(split, question)) if name in STAGED else None  # type: ignore[attr-defined]
    return Chosen(split, inner, mu, seconds)


def grid(name: str) -> list[tuple[Any, ...]]:
    ways = [("oldest", 1), ("best", 2)] if "hybrid" in name else [("oldest", 1)]
    sizes = (40, 300, 5_000, 100_000, 2_000_000)
    cases = [(*case, *way) for *case, way in product(sizes, STREAMS, ("scattered", "by frequency"), MEMORY, ways)]
    return random.Random(name).sample(cases, CASES.get(name, USUAL_CASES))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("to", type=Path)
    arguments.add_argument("--beside", type=Path)
    given = arguments.parse_args()
    before: dict[str, list[Chosen]] = pickle.loads(given.beside.read_bytes()) if given.beside else {}
    after = {}
    for name in ALONE + STAGED:
        after[name] = found = [chosen(name, *case) for case in grid(name)]
        line = f"{name:28} {len(found):4} cases {sum(c.seconds for c in found):7.2f} s"
        if then := before.get(name):
            same = sum(new[:2] == old[:2] for new, old in zip(found, then, strict=True))
            apart = max(abs(new.mu / old.mu - 1) for new, old in zip(found, then, strict=True))
            line += f", before {sum(c.seconds for c in then):7.2f} s; same split {same}, rates apart by {apart:.1e}"
        print(line, flush=True)
    given.to.write_bytes(pickle.dumps(after))


if __name__ == "__main__":
    main()
