"""When a change of the master may be acted upon: not before it has settled, nor while a batch is in hand that began
before."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from pipeline.driver import told as driver_told
from pipeline.driver.changelog import SETTLES
from pipeline.driver.told import Told
from pipeline.master.feed import Changes


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def told(clock: Clock) -> Told:
    return Told(clock)


def keys(changes: Changes) -> dict[str, list[int]]:
    return {name: some.to_pylist() for name, some in changes.keys.items()}


def of_product(*some: int, place: str = "") -> Changes:
    return Changes({"product": pa.array(some)}, place=place)


def test_a_change_is_due_once_and_not_before_every_read_sees_it(told: Told, clock: Callable[[], float]) -> None:
    told.add(of_product(1))
    clock.now += SETTLES - 0.01
    assert not told.due(None).keys
    clock.now += 0.01
    assert keys(told.due(None)) == {"product": [1]}
    assert not told.due(None).keys


def test_it_waits_for_the_batch_that_may_have_been_joined_without_it(told: Told, clock: Callable[[], float]) -> None:
    told.add(of_product(1))
    began_too_early = clock.now + SETTLES - 0.01
    clock.now += 60
    assert not told.due(began_too_early).keys
    assert keys(told.due(began_too_early + 0.01)) == {"product": [1]}


def test_what_is_due_comes_together_with_the_place_of_the_last_of_it(told: Told, clock: Callable[[], float]) -> None:
    told.add(of_product(1, 2, place="f:1"))
    told.add(Changes({"store": pa.array([b"s"])}, frozenset({"customer"}), place="f:2"))
    told.add(of_product(2, 3, place="f:3"))
    clock.now += 5
    told.add(of_product(4, place="f:4"))
    due = told.due(None)
    assert keys(due) == {"product": [1, 2, 3], "store": [b"s"]}
    assert (due.all_of, due.place) == (frozenset({"customer"}), "f:3")
    assert told.due(None).place == "f:3", "still the place up to which all is known"


def test_too_many_keys_become_all_of_it_and_none_is_lost(
    told: Told, clock: Callable[[], float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_told, "_MOST_KEYS", 10)
    told.add(Changes({"store": pa.array([b"s"])}))
    for first in range(0, 40, 4):
        told.add(of_product(*range(first, first + 4)))
    clock.now += 60
    due = told.due(None)
    assert due.all_of >= {"store", "product"}
    assert sum(map(len, due.keys.values())) <= 10
