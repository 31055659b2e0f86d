"""Stand-ins for what a test must control or watch: the clock, and what a master was asked."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from pipeline.master.memory import MemoryMaster


class FakeClock:
    """A clock that moves only when told to."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


class WatchedMaster(MemoryMaster):
    """A master in memory that keeps the keys of every look-up."""

    def __init__(self, table: pa.Table, fail_on: int | None = None, **options: Any) -> None:
        super().__init__(table, fail_on, **options)
        self.asked: list[list[Any]] = []

    def lookup(self, keys: pa.Array) -> pa.Table:
        self.asked.append(keys.to_pylist())
        return super().lookup(keys)
