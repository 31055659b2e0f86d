"""No row is served that is older than allowed, also where the master takes its time to answer."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from pipeline.joins import Options, make, recipe
from pipeline.master.memory import MemoryMaster
from pipeline.master.port import Scan, UnderWay
from tests.joins.harness import VARIANTS, Variant, answer, drive
from tests.joins.workloads import thousands
from tests.kit.fakes import FakeClock

STALENESS, READ, ROWS = 300.0, 2.0, 200
KEEPS_ROWS = [variant for variant in VARIANTS if recipe(str(variant)).keeps_rows]


class SlowMaster(MemoryMaster):
    """Answers with what was there when it was asked; the answer comes some time later."""

    def __init__(self, table: pa.Table, clock: FakeClock) -> None:
        super().__init__(table)
        self.clock = clock
        self.takes = READ
        self.asked_for: dict[int, float] = {}  # when each row was asked for last

    def _later(self, rows: pa.Table) -> pa.Table:
        self.asked_for.update(dict.fromkeys(rows["surrogate_key"].to_pylist(), self.clock()))
        self.clock.advance(self.takes)
        return rows

    def lookup(self, keys: pa.Array) -> pa.Table:
        return self._later(super().lookup(keys))

    def page(self, first: object, until: object, rows: int, also: pa.Array | None = None) -> pa.Table:
        return self._later(super().page(first, until, rows, also))

    def begin_scan(self, position: bytes | None, rows: int, until: bytes | None = None) -> UnderWay[Scan]:
        asked, later = MemoryMaster.scan(self, position, rows, until), self._later

        class Asked:
            def answer(self) -> Scan:
                later(asked.rows)
                return asked

            def abandon(self) -> None:
                return

        return Asked()

    def scan(self, position: bytes | None, rows: int, until: bytes | None = None) -> Scan:
        return self.begin_scan(position, rows, until).answer()


@pytest.mark.parametrize("memory", [100_000, 1 << 20])
@pytest.mark.parametrize("variant", KEEPS_ROWS, ids=str)
def test_a_row_grows_old_from_when_it_was_asked_for(variant: Variant, memory: int) -> None:
    """Every version of the master gives its rows surrogate keys of their own: so an answer tells how old it is."""
    clock = FakeClock()
    master = SlowMaster(MemoryMaster.of(dict.fromkeys(range(ROWS), 0)).table, clock)
    join = make(str(variant), master, memory, Options(max_staleness=STALENESS, absent_staleness=10.0, clock=clock))
    keys, _ = thousands(rows=ROWS // 2, sales=400, skew=1.0)
    replaced: list[float] = []
    oldest = 0.0
    for version in range(40):
        offered = 0
        while offered < len(keys) or join.pending:
            began = clock()
            offered += join.offer(np.arange(offered, len(keys)), keys.slice(offered)) if offered < len(keys) else 0
            for _, served, *_ in answer(join.step(drain=offered == len(keys))):
                if served is not None and served < version:
                    oldest = max(oldest, began - replaced[served])
        clock.advance(float(np.random.default_rng(version).uniform(0, 90)))
        master.replace(MemoryMaster.of(dict.fromkeys(range(ROWS), version + 1)).table)
        replaced.append(clock())
    assert join.cached_rows
    assert oldest < STALENESS
    assert oldest > STALENESS / 4, "nothing was served from memory, and so nothing was tried"


@pytest.mark.parametrize("staleness", [1e12, float("inf")])
@pytest.mark.parametrize("variant", [v for v in KEEPS_ROWS if recipe(str(v)).has_front_stage], ids=str)
def test_a_row_that_may_grow_as_old_as_it_likes_is_read_once(variant: Variant, staleness: float) -> None:
    clock = FakeClock()
    master = MemoryMaster.of({b"bun": 7})
    options = Options(max_staleness=staleness, absent_staleness=staleness, clock=clock)
    join, keys = make(str(variant), master, 1 << 20, options), pa.array([b"bun"] * 50, pa.binary())
    for _ in range(4):
        assert {served for _, served, *_ in answer(drive(join, keys))} == {7}
        clock.advance(1e6)
    reads = sum(count.queries for kind, count in master.reads.by_kind.items() if kind != "describe")
    master.replace(MemoryMaster.of({b"bun": 8}).table)
    assert {served for _, served, *_ in answer(drive(join, keys))} == {7}
    assert sum(count.queries for kind, count in master.reads.by_kind.items() if kind != "describe") == reads


@pytest.mark.parametrize("variant", KEEPS_ROWS, ids=str)
def test_the_time_that_an_answer_takes_is_part_of_a_rows_age(variant: Variant) -> None:
    clock = FakeClock()
    master = SlowMaster(MemoryMaster.of({b"bun": 7}).table, clock)
    master.takes = STALENESS / 2
    join = make(str(variant), master, 1 << 20, Options(max_staleness=STALENESS, clock=clock))
    keys = pa.array([b"bun"] * 50, pa.binary())
    assert {served for _, served, *_ in answer(drive(join, keys))} == {7}
    master.replace(MemoryMaster.of({b"bun": 8}).table)
    clock.now = master.asked_for[7] + STALENESS
    assert {served for _, served, *_ in answer(drive(join, keys))} == {8}
