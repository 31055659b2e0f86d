"""What parsing costs, in µs of one core a message: clean, with ignored fields, and with 2 % malformed.

    python tests/benchmarks/parse.py [messages] [repeats]

The variants take turns within each repeat, so that a noisy neighbour meets all of them. Times are CPU times of the
process; wall times on a shared machine say more about the neighbour.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

sys.path.insert(0, str(Path(__file__).resolve().parent))
from join_lab import RESULTS, host

from pipeline.config.contracts import Contracts
from pipeline.parse import Parser

SEED = 20261118
MALFORMED = 0.02


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
    named = {"clean": plain, "with ignored fields": extra, f"{MALFORMED:.0%} malformed": mixed}
    return {name: pa.array(messages, pa.binary()) for name, messages in named.items()}


def main(count: int, repeats: int) -> None:
    parser = Parser(Contracts().topic("sale.v1"), 1 << 20)
    result: dict[str, object] = {"host": host(), "workload": __doc__, "seed": SEED, "messages": count}
    work = workloads(count)
    micros: dict[str, list[float]] = {name: [] for name in work}
    for repeat in range(repeats + 1):
        for name, values in work.items():
            start = time.process_time()
            parsed = parser.parse(values)
            elapsed = time.process_time() - start
            if repeat:  # the first warms up
                micros[name].append(round(elapsed / count * 1e6, 3))
            if name == "clean" and len(parsed.sales) != count:
                raise SystemExit("a clean message was refused; the figures would be worthless")
    result["cases"] = [
        {"case": name, "bytes": round(values.nbytes / count - 4), "micros": micros[name]}
        for name, values in work.items()
    ]
    (RESULTS / "parse.json").write_text(json.dumps(result, indent=1) + "\n")
    for name, taken in micros.items():
        print(f"{name:<22}{min(taken):6.2f}{statistics.median(taken):6.2f}{max(taken):6.2f}   best, median, worst")


if __name__ == "__main__":
    main(*(int(argument) for argument in (sys.argv[1:] + ["100000", "15"][len(sys.argv) - 1 :])))
