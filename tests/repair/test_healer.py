"""Facts are healed beside a running job when its feed tells of their keys: on the real server and on real tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from pipeline.errors import MasterReadFailed
from pipeline.laptop.stack.stack import Stack
from pipeline.master.feed import Changes
from pipeline.repair import allowance, census, healer, unknown
from pipeline.repair.healer import Healer
from pipeline.repair.unknown import dimensions_of
from pipeline.warehouse.log import TableLog
from tests.repair.repair_world import World, as_toml, fact, known, type_name

NOW = datetime.now(timezone.utc).replace(microsecond=0)


@pytest.fixture
def world(stack: Stack, master_database: str, tmp_path: Path) -> World:
    return World(stack, master_database, tmp_path).under("warehouse.heal_rows_per_minute=100000")


class Told:
    def __init__(self) -> None:
        self.healed: dict[str, int] = {}
        self.unknown: Mapping[str, tuple[int, float | None]] = {}

    def healing(self, healed: Mapping[str, int], unknown: Mapping[str, tuple[int, float | None]]) -> None:
        self.healed = {name: self.healed.get(name, 0) + healed.get(name, 0) for name in unknown}
        self.unknown = unknown

    def healing_failed(self) -> None:
        raise AssertionError("that is the thread's to tell")


def healer_of(world: World, told: Told | None = None, is_over: Callable[[], bool] = lambda: False) -> Healer:
    plan = world.plan
    dimensions = dimensions_of(plan.facts, plan.dimensions, [])
    return Healer(plan, TableLog(world.uri, {}), dimensions, told or Told(), is_over)


def new(offset: int, product: str | None = "P-1", **values: Any) -> dict[str, Any]:
    """An unknown fact of today."""
    return fact(offset, product, kafka_timestamp=NOW + timedelta(milliseconds=offset), **values)


def products(*codes: str) -> Changes:
    return Changes({"product": pa.array([code.encode() for code in codes], pa.binary())}, place="log:4")


def keys(world: World) -> list[int]:
    return [row["product_key"] for row in sorted(world.facts(), key=lambda row: row["offset"])]


@pytest.mark.mysql
def test_only_facts_of_the_keys_that_were_told_are_asked_for_and_healed(world: World) -> None:
    world.write([new(0, "P-1"), known(1), new(2, "P-2")], [new(3, "P-1"), new(4, None)])
    world.add_products(["P-1", "P-2"])
    told = Told()
    healing = healer_of(world, told)
    healing.turn(products("P-1", "P-7"))
    assert keys(world) == [1000, 9, -1, 1000, -1]
    assert told.healed == {"product": 2, "customer": 0, "store": 0}
    assert told.unknown["product"] == (1, (NOW + timedelta(milliseconds=2)).timestamp())
    assert told.unknown["customer"] == (0, None)
    assert not healing.is_busy


def test_all_of_it_heals_whatever_is_unknown_and_known_to_the_master(world: World) -> None:
    world.write([new(0, "P-1"), new(1, "P-9")], [new(2, "P-2", customer_key=-1)])
    world.add_products(["P-1", "P-2"])
    world.add_customer(70, key=5)
    told = Told()
    healer_of(world, told).turn(Changes(all_of=frozenset({"product"})))
    assert keys(world) == [1000, -1, 1001]
    assert told.healed == {"product": 2, "customer": 1, "store": 0}


def test_where_nothing_was_told_or_nothing_is_unknown_nothing_is_committed_and_the_master_is_not_asked(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.write([new(0, "P-1"), known(1)])
    world.add_products(["P-1"])
    version = world.version()
    monkeypatch.setattr(healer, "opened", lambda *_: pytest.fail("the master is asked"))
    healing = healer_of(world)
    healing.turn(Changes())
    healing.turn(products("P-8"))
    healing.turn(Changes({"store": pa.array([b"S-1"])}, frozenset({"no dimension of these"})))
    assert (world.version(), keys(world)) == (version, [-1, 9])


def test_a_file_is_read_once_and_one_without_unknown_facts_never(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    of = unknown.UnknownFacts.of

    def counted(self: Any, file: Any, *rows: int) -> Any:
        read.append(file.path)
        return of(self, file, *rows)

    monkeypatch.setattr(unknown.UnknownFacts, "of", counted)
    world.write([new(0, "P-1")], [known(1, kafka_timestamp=NOW)], [new(2, "P-2")])
    healing = healer_of(world)
    healing.turn(Changes())
    assert len(read) == 2
    healing.turn(products("P-8"))
    assert len(read) == 2
    world.write([new(3, "P-1")], first=3)
    healing.turn(products("P-2"))
    assert len(read) == 4, "the new one, and that which has the key"


def test_facts_beyond_the_age_stay_unknown_and_are_not_counted(world: World) -> None:
    world = world.under("warehouse.heal_rows_per_minute=100", "warehouse.heal_age=1 h")
    world.write([new(0), fact(1, kafka_timestamp=NOW - timedelta(hours=2))])
    world.add_products(["P-1"])
    told = Told()
    healing = healer_of(world, told)
    healing.turn(Changes())
    assert told.unknown["product"] == (1, NOW.timestamp())
    healing.turn(Changes(all_of=frozenset({"product"})))
    assert keys(world) == [1000, -1]
    assert told.unknown["product"] == (0, None)


def test_no_minute_sees_more_facts_healed_than_the_setting_says(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    world = world.under("warehouse.heal_rows_per_minute=4")
    world.write([new(offset, "P-9" if offset % 3 == 0 else "P-1") for offset in range(15)])  # ten of P-1
    world.add_products(["P-1"])
    monkeypatch.setattr(healer, "Allowance", lambda most: allowance.Allowance(most, lambda: now[0]))
    healing = healer_of(world)
    healing.turn(Changes(all_of=frozenset({"product"})))
    for healed in (4, 8, 10):
        healing.turn(Changes())  # in the same minute
        assert sum(key == 1000 for key in keys(world)) == healed
        assert healing.is_busy == (healed < 10)
        now[0] += 60
        healing.turn(Changes())
    assert [key == 1000 for key in keys(world)] == [offset % 3 != 0 for offset in range(15)]


def test_keys_that_are_told_come_before_the_rest_of_all_of_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(healer, "Allowance", lambda most: allowance.Allowance(most, lambda: now[0]))
    world = world.under("warehouse.heal_rows_per_minute=2")
    world.write([*(new(offset, "P-1") for offset in range(6)), new(6, "P-2")])
    world.add_products(["P-1", "P-2"])
    healing = healer_of(world)
    healing.turn(Changes(all_of=frozenset({"product"})))
    assert keys(world)[6] == -1
    now[0] += 60
    healing.turn(products("P-2"))
    assert keys(world)[6] == 1001


def test_after_a_failure_everything_is_looked_at_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.write([new(0), new(1, "P-2")])
    world.add_products(["P-1", "P-2"])
    healing = healer_of(world)

    def away(*_: Any) -> None:
        raise MasterReadFailed("the server is away")

    with monkeypatch.context() as context:
        context.setattr(healer, "opened", away)
        with pytest.raises(MasterReadFailed):
            healing.turn(products("P-1"))
    assert healing.is_busy
    healing.turn(Changes())
    assert keys(world) == [1000, 1001]
    assert not healing.is_busy


def test_keys_too_many_to_remember_are_still_found(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(census, "_MOST_KEYS", 1)
    world.write([new(0, "P-1")], [new(1, "P-2"), new(2, "P-3")])
    world.add_products(["P-1", "P-2"])
    healer_of(world).turn(products("P-1", "P-2"))
    assert keys(world) == [1000, 1001, -1]


def test_files_that_are_merged_meanwhile_are_read_anew_and_their_facts_counted_once(world: World) -> None:
    world.write([new(0)], [new(1)], [new(2, "P-2")])
    told = Told()
    healing = healer_of(world, told)
    healing.turn(Changes())
    DeltaTable(world.uri).optimize.compact()
    healing.turn(Changes())
    assert told.unknown["product"] == (3, NOW.timestamp())
    world.add_products(["P-1"])
    healing.turn(products("P-1"))
    assert keys(world) == [1000, 1000, -1]


def test_a_job_that_ends_is_not_held_up_between_two_windows(world: World) -> None:
    world = world.under("warehouse.heal_rows_per_minute=1000", "worker.window_sales=2")
    world.write(*[[new(2 * batch), new(2 * batch + 1)] for batch in range(3)])
    world.add_products(["P-1"])
    told = Told()
    healer_of(world, told, is_over=lambda: told.healed != {} or DeltaTable(world.uri).version() > 3).turn(
        Changes(all_of=frozenset({"product"}))
    )
    assert keys(world).count(1000) == 2


def test_a_fact_says_by_which_place_in_the_masters_log_it_was_healed(world: World) -> None:
    shipped = world.plan.facts
    sources = [(c.name, type_name(c.type), c.source) for c in shipped.columns]
    sources += [("healed_at", "timestamp", "fact.healed_at"), ("healed_by", "string", "fact.healed_by")]
    told = world.with_contract(as_toml(shipped.name, shipped.partition_by, sources))
    world = told.under(*told.settings, *world.settings)
    world.write([new(0), new(1, "P-2"), new(2, "P-9")])
    world.add_products(["P-1"])
    healer_of(world).turn(products("P-1"))
    world.add_products(["P-2"], first_key=2000)
    world.repair()
    by = {row["offset"]: (row["healed_at"] is not None, row["healed_by"]) for row in world.facts()}
    assert by == {0: (True, "log:4"), 1: (True, None), 2: (False, None)}
    [newest, healing, *_] = DeltaTable(world.uri).history(2)
    assert '"position":"log:4"' in healing["userMetadata"]
    assert '"position":null' in newest["userMetadata"]
