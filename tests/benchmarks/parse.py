"""What parsing costs, in µs of one core a message: clean, with ignored fields, with 2 % malformed, and 44 fields.

    python tests/benchmarks/parse.py [--other CHECKOUT] [--messages 100000] [--turns 15]

The variants take turns, so that a noisy neighbour meets all of them; so does another checkout, in a process of its own.
Times are CPU times of the process; wall times on a shared machine say more about the neighbour. Also: seconds until the
first message could be parsed, in a process that has loaded Arrow; `anew` with nothing compiled before.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

HERE = Path(__file__).resolve()

SEED = 20261118
MALFORMED = 0.02
WIDE = {
    **{f"text_{i}": {"type": ["string", "null"], "x-type": "string", "maxLength": 64} for i in range(12)},
    **{f"count_{i}": {"type": "integer", "x-type": "int64", "minimum": 0} for i in range(8)},
    **{f"amount_{i}": {"type": ["number", "null"], "x-type": "decimal(18,2)"} for i in range(8)},
    **{f"measure_{i}": {"type": "number", "x-type": "double"} for i in range(6)},
    **{f"at_{i}": {"type": "string", "x-type": "timestamp"} for i in range(4)},
    **{f"day_{i}": {"type": ["string", "null"], "x-type": "date"} for i in range(2)},
    **{f"is_{i}": {"type": "boolean", "x-type": "boolean"} for i in range(4)},
}


def clean(draw: random.Random, i: int) -> dict[str, object]:
    return {
        "sale_id": f"S-{i:012d}",
        "sold_at": f"2026-11-{draw.randint(1, 28):02d}T{draw.randrange(24):02d}:{draw.randrange(60):02d}:"
        f"{draw.randrange(60):02d}.{draw.randrange(10**6):06d}Z",
        "store_code": f"ST-{draw.randrange(500):04d}",
        "product_code": f"P-{draw.randrange(2_000_000):08d}" if draw.random() > 0.01 else None,
        "customer_number": draw.randrange(1_000_000),
        "quantity": draw.randint(-2, 30),
        "unit_price": draw.randrange(1, 50_000) / 100,
        "currency": draw.choice(["EUR", "USD", "SEK"]),
    }


def with_ignored_fields(draw: random.Random, i: int) -> dict[str, object]:
    return {**clean(draw, i), "till": draw.randrange(9), "note": 'Käse "mild"', "shop": {"city": "Linz", "floor": 2}}


def wide(draw: random.Random, i: int) -> dict[str, object]:
    """A value for each field of `WIDE`, one in ten null where it may be."""
    made: dict[str, Callable[[], object]] = {
        "string": lambda: draw.choice(["a word", "Zürich", "x" * 40, f"K-{draw.randrange(10**9):09d}"]),
        "int64": lambda: draw.randrange(10 ** draw.randint(1, 18)),
        "decimal(18,2)": lambda: draw.randrange(-(10**9), 10**9) / 100,
        "double": lambda: draw.choice([draw.random(), draw.randrange(1000) / 8, draw.gauss(0, 1e6)]),
        "timestamp": lambda: f"2026-11-{draw.randint(1, 28):02d}T{draw.randrange(24):02d}:30:00+01:00",
        "date": lambda: f"19{draw.randrange(100):02d}-{draw.randint(1, 12):02d}-{draw.randint(1, 28):02d}",
        "boolean": lambda: draw.random() < 0.5,
    }
    return {
        field: None if "null" in rules["type"] and draw.random() < 0.1 else made[str(rules["x-type"])]()
        for field, rules in WIDE.items()
    }


def malformed(draw: random.Random, i: int) -> bytes:
    """One of ten slips, in turn."""
    sale = clean(draw, i)
    text = as_bytes(sale)
    slips: list[Callable[[], bytes]] = [
        lambda: text[: draw.randrange(len(text))],
        lambda: text + text,
        lambda: as_bytes({**sale, "quantity": "5"}),
        lambda: as_bytes({**sale, "unit_price": 12.345}),
        lambda: as_bytes({**sale, "customer_number": 10**30}),
        lambda: as_bytes({**sale, "sold_at": "2026-02-30T00:00:00Z"}),
        lambda: as_bytes({name: value for name, value in sale.items() if name != "currency"}),
        lambda: as_bytes({**sale, "sale_id": "a\0b"}),
        lambda: text[:-1] + b',"quantity":3}',
        lambda: text.replace(b"S-", b"\xff-"),
    ]
    return slips[draw.randrange(len(slips))]()


def as_bytes(sale: dict[str, object]) -> bytes:
    return json.dumps(sale, separators=(",", ":"), ensure_ascii=False).encode()


def workloads(count: int) -> dict[str, pa.Array]:
    draw = random.Random(SEED)
    plain = [as_bytes(clean(draw, i)) for i in range(count)]
    extra = [as_bytes(with_ignored_fields(draw, i)) for i in range(count)]
    mixed = [malformed(draw, i) if draw.random() < MALFORMED else message for i, message in enumerate(plain)]
    many = [as_bytes(wide(draw, i)) for i in range(count // 4)]
    named = {
        "clean": plain,
        "with ignored fields": extra,
        f"{MALFORMED:.0%} malformed": mixed,
        f"{len(WIDE)} fields": many,
    }
    return {name: pa.array(messages, pa.binary()) for name, messages in named.items()}


def contract(case: str) -> Any:
    from pipeline.config.contracts import Contracts

    if not case.endswith(" fields") or case.startswith("with"):
        return Contracts().topic("sale.v1")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "topics").mkdir()
        document = {"properties": WIDE, "required": [*WIDE]}
        (Path(folder) / "topics" / "wide.json").write_text(json.dumps(document))
        return Contracts(folder).topic("wide")


def serve(count: int) -> None:
    """Measure each case once for every line that comes: the first is for warming up."""
    from pipeline.parse import Parser

    work = {name: (Parser(contract(name), 1 << 20), values) for name, values in workloads(count).items()}
    for _ in sys.stdin:
        micros = {}
        for name, (parser, values) in work.items():
            began = time.process_time()
            parsed = parser.parse(values)
            micros[name] = round((time.process_time() - began) / len(values) * 1e6, 3)
            if "malformed" not in name and len(parsed.sales) != len(values):
                raise SystemExit("a clean message was refused; the figures would be worthless")
        print(json.dumps(micros), flush=True)


def first() -> None:
    began = time.process_time()
    from pipeline.parse import Parser

    Parser(contract("clean"), 1 << 20).parse(pa.array([b"{}"]))
    print(json.dumps(round(time.process_time() - began, 3)))


def command(folder: Path, *words: str, **environment: str) -> dict[str, Any]:
    return {
        "args": [sys.executable, "-P", str(HERE), *words],
        "env": {**os.environ, "PYTHONPATH": str(folder), **environment},
        "cwd": folder,
        "text": True,
    }


@contextmanager
def served(folder: Path, count: int) -> Iterator[Callable[[], dict[str, float]]]:
    with subprocess.Popen(
        **command(folder, "--serve", str(count)), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:

        def measured() -> dict[str, float]:
            assert process.stdin
            assert process.stdout
            process.stdin.write("\n")
            process.stdin.flush()
            return dict(json.loads(process.stdout.readline()))

        yield measured
        assert process.stdin
        process.stdin.close()


def seconds_to_first(folder: Path) -> dict[str, list[float]]:
    """With an empty cache of compiled loops, and thrice with a full one."""
    with tempfile.TemporaryDirectory() as cache:
        taken = [
            json.loads(
                subprocess.run(
                    **command(folder, "--first", NUMBA_CACHE_DIR=cache), check=True, stdout=subprocess.PIPE
                ).stdout
            )
            for _ in range(4)
        ]
    return {"anew": taken[:1], "again": taken[1:]}


def measure(folder: Path, other: Path | None, count: int, turns: int) -> dict[str, Any]:
    checkouts = {"this": folder} | ({"other": other} if other else {})
    found: dict[str, dict[str, list[float]]] = {name: {} for name in checkouts}
    with served(folder, count) as this, served(other or folder, count) as that:
        for turn in range(turns + 1):
            for name, measured in (("this", this), ("other", that)):
                if name in checkouts:
                    for case, micros in measured().items():
                        if turn:
                            found[name].setdefault(case, []).append(micros)
    return {
        name: {
            "commit": subprocess.run(
                ["git", "-C", str(at), "rev-parse", "--short", "HEAD"], capture_output=True, text=True
            ).stdout.strip(),
            "micros": found[name],
            "seconds to the first": seconds_to_first(at),
        }
        for name, at in checkouts.items()
    }


def main() -> None:
    sys.path.insert(0, str(HERE.parent))
    from join_lab import RESULTS, host

    given = argparse.ArgumentParser()
    given.add_argument("--other", type=Path)
    given.add_argument("--messages", type=int, default=100_000)
    given.add_argument("--turns", type=int, default=15)
    options = given.parse_args()
    other = options.other.resolve() if options.other else None
    result = {
        "host": host(),
        "workload": __doc__,
        "seed": SEED,
        "messages": options.messages,
        "bytes": {name: round(values.nbytes / len(values) - 4) for name, values in workloads(1000).items()},
        **measure(HERE.parents[2], other, options.messages, options.turns),
    }
    (RESULTS / "parse.json").write_text(json.dumps(result, indent=1) + "\n")
    for name in ("other", "this"):
        for case, taken in result.get(name, {"micros": {}})["micros"].items():
            best, median, worst = min(taken), statistics.median(taken), max(taken)
            print(f"{name:<8}{case:<22}{best:6.2f}{median:6.2f}{worst:6.2f}   best, median, worst")
        print(name, result.get(name, {}).get("seconds to the first"))


if __name__ == "__main__":
    if "--serve" in sys.argv:
        serve(int(sys.argv[-1]))
    elif "--first" in sys.argv:
        first()
    else:
        main()
