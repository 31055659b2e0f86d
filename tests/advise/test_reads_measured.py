"""What `calibrate` makes of a server's times, on a clock that only the server moves."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import numpy as np
import pytest

from pipeline.advise import calibrate
from pipeline.joins.cost.unit_costs import Line, UnitCosts
from pipeline.master.memory import MemoryMaster
from pipeline.master.port import Scan
from tests.joins.workloads import master_table

Seconds = Callable[[int, int], float]  # of a read of so many rows, the how manieth


class Server(MemoryMaster):
    """Each scan takes what `seconds` says of its rows, and of how many came before it."""

    now = 0.0

    def __init__(self, seconds: Seconds) -> None:
        super().__init__(master_table(range(50_000), "integers"), indexed=False)
        self._seconds, self._number = seconds, count(1)

    def scan(self, position: bytes | None, rows: int, until: bytes | None = None) -> Scan:
        found = super().scan(position, rows, until)
        Server.now += self._seconds(rows, next(self._number))
        return found


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibrate.time, "perf_counter", lambda: Server.now)


def scan_of(seconds: Seconds) -> Line:
    return calibrate.reads_of(Server(seconds), UnitCosts()).scan


def test_a_straight_line_is_found() -> None:
    line = scan_of(lambda rows, number: 0.001 + 2e-6 * rows)
    assert (line.request, line.item) == pytest.approx((0.001, 2e-6), rel=1e-6)


def test_a_cost_that_bends_is_told_of_reads_of_any_size() -> None:
    """As MySQL 9.7 did with 2 M rows and a pool of 24 MB; by the least and the largest alone it is 10 % off."""
    sizes = [250, 500, 1_000, 1_500, 2_000, 3_000, 4_000, 6_000, 8_000]
    milliseconds = [0.807, 0.989, 1.417, 1.716, 2.008, 2.584, 3.207, 4.444, 5.438]
    line = scan_of(lambda rows, number: np.interp(rows, sizes, milliseconds) / 1_000)
    told = np.array([line(rows) for rows in sizes[1:]]) * 1_000 / milliseconds[1:]
    assert np.all(np.abs(told - 1) < 0.08)


def test_slow_reads_count_as_often_as_they_come() -> None:
    """A disk that has to turn first, at each fiftieth read."""
    line = scan_of(lambda rows, number: 0.001 + 0.01 * (number % 50 == 0))
    assert line(2_000) == pytest.approx(0.0012, rel=0.03)


def test_one_pause_of_the_machine_does_not_count() -> None:
    line = scan_of(lambda rows, number: 0.001 + 0.25 * (number == 20))
    assert line(2_000) == pytest.approx(0.001, rel=0.003)


@pytest.mark.parametrize("left", [0.0, -0.002])
def test_where_nothing_is_left_of_a_measurement_the_costs_are_small_and_not_none(left: float) -> None:
    line = calibrate._through((250, left), (2_000, left))
    assert 0 < line.request < 1e-5
    assert 0 < line.item < 1e-8


def test_requests_of_one_size_say_nothing_of_an_item() -> None:
    line = calibrate._through((249.6, 0.002), (250.0, 0.004))
    assert line(250) == pytest.approx(0.003, rel=0.001)
