"""Sales and master tables to try the joins on: drawn by hypothesis, small enough to understand when one fails."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from pipeline import keys as natural_keys
from pipeline.master.memory import MemoryMaster

# Keys that look alike to something: a database's collation, a C string, a float, a sign.
_TRICKY = {
    "integers": [0, -1, 1, 2**63 - 1, -(2**63), 2**53, 2**53 + 1],
    "texts": ["", " ", "a", "A", "a ", "á", "a\u0301", "\0", "a\0", "ß", "ss", "日本", "😀"],
    "bytes": [b"", b"\0", b"\0\0", b"\xff", b"\xff\0", b"a"],
    "two columns": [("", 0), ("a", 1), ("A", 1), ("a ", 1), ("a", -1), ("", 2**63 - 1), ("日本", 1)],
    # Alike up to the last byte, or to a blank, or but for case; as long as a code, and too long for one.
    "long texts": ["k" * 90, "k" * 90 + " ", "K" * 90, "k" * 89, "k" * 63, "k" * 64, "k" * 62 + "K"],
}


@dataclass(frozen=True)
class Workload:
    """Keys of sales, the master table they meet, and how the job would cut and budget them."""

    keys: pa.Array
    master: pa.Table
    cuts: list[int]
    spare: int  # bytes of memory above the least the join takes

    def __repr__(self) -> str:
        return (
            f"Workload(keys={self.keys.to_pylist()}, master={self.master['key'].to_pylist()}, cuts={self.cuts}, "
            f"spare={self.spare})"
        )


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    kind = draw(st.sampled_from(sorted(_TRICKY)))
    rows = draw(st.sampled_from([0, 1, 2, 5, 40, 300]))
    sales = draw(st.sampled_from([0, 1, 2, 30, 200]))
    skew = draw(st.floats(0, 1.5))
    absent = draw(st.sampled_from([0.0, 0.1, 0.5]))
    null = draw(st.sampled_from([0.0, 0.1, 1.0]))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    pool = key_pool(kind, int(rows * (1 + absent)) + (absent > 0))
    random.shuffle(pool)
    keys = sales_keys(pool, sales, skew, null, random, kind)
    cuts = draw(st.lists(st.integers(0, sales), max_size=3))
    return Workload(keys, master_table(pool[:rows], kind), cuts, draw(st.sampled_from([0, 1, 700, 20_000, 1 << 20])))


@st.composite
def repeated(draw: st.DrawFn) -> tuple[pa.Array, pa.Table, list[int], int]:
    """Keys of sales, and a table where each key has none, one or many rows, anywhere in it."""
    kind = draw(st.sampled_from(["integers", "texts", "two columns", "long texts"]))
    keys = draw(st.sampled_from([1, 5, 40]))
    times = draw(st.sampled_from([1, 2, 7, 60]))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    pool = key_pool(kind, keys)
    rows = [key for key in pool[: max(1, keys * 3 // 4)] for _ in range(random.integers(1, times + 1))]
    random.shuffle(rows)
    sales = draw(st.sampled_from([1, 30, 200]))
    wanted = sales_keys(pool, sales, draw(st.floats(0, 1.5)), draw(st.sampled_from([0.0, 0.1])), random, kind)
    cuts = draw(st.lists(st.integers(0, sales), max_size=3))
    return wanted, master_table(rows, kind), cuts, draw(st.sampled_from([0, 700, 20_000, 1 << 20]))


def key_pool(kind: str, size: int) -> list[object]:
    """Distinct keys, the tricky ones among them."""
    numbers = range(10, 10 + size)
    made = {
        "integers": list(numbers),
        "texts": [f"key {number}" for number in numbers],
        "bytes": [number.to_bytes(3, "big") for number in numbers],
        "two columns": [(f"shop {number % 7}", number // 7) for number in numbers],
        "long texts": [f"{'k' * (60 + number % 30)}{number}" for number in numbers],
    }[kind]
    return [*_TRICKY[kind], *made][: max(size, 0)]


def sales_keys(pool: list[object], sales: int, skew: float, null: float, random: np.random.Generator, kind: str):
    """Keys of sales, by Zipf's law over the pool; some null."""
    if not pool:
        return as_keys([None] * sales, kind)
    weights = 1.0 / np.arange(1, len(pool) + 1) ** skew
    chosen = random.choice(len(pool), sales, p=weights / weights.sum())
    # The most wanted keys are not the first of the master's: a stride spreads them over its rows.
    picked = [pool[(7 * place) % len(pool)] for place in chosen]
    return as_keys([None if random.random() < null else key for key in picked], kind)


def as_keys(values: list[object], kind: str) -> pa.Array:
    if kind == "two columns":
        texts, numbers = zip(*(value or (None, None) for value in values), strict=True) if values else ((), ())
        return natural_keys.pack([pa.array(texts, pa.string()), pa.array(numbers, pa.int64())])
    if kind in ("texts", "long texts"):
        return pa.array(values, pa.string()).cast(pa.binary())
    return pa.array(values, pa.int64() if kind == "integers" else pa.binary())


def master_table(keys: list[object], kind: str) -> pa.Table:
    """A master with these keys, two attributes and some nulls among them."""
    numbers = range(1, len(keys) + 1)
    return pa.table(
        {
            "key": as_keys(keys, kind),
            "surrogate_key": pa.array([number * 10 for number in numbers], pa.int64()),
            "updated_at": pa.array([number * 1_000_000 for number in numbers], pa.timestamp("us", tz="UTC")),
            "label": pa.array([None if number % 5 == 0 else f"label {number}" for number in numbers], pa.string()),
            "weight": pa.array([number / 7 for number in numbers], pa.float64()),
        }
    )


def thousands(rows: int, sales: int, skew: float, seed: int = 1, absent: float = 0.1) -> tuple[pa.Array, MemoryMaster]:
    """Many sales over integer keys 0, 2, 4, ...; odd keys are absent."""
    random = np.random.default_rng(seed)
    weights = 1.0 / np.arange(1, rows + 1) ** skew
    ranks = random.choice(rows, sales, p=weights / weights.sum())
    spread = random.permutation(rows)[ranks] * 2
    return pa.array(spread + (random.random(sales) < absent)), MemoryMaster(
        master_table([2 * row for row in range(rows)], "integers")
    )
