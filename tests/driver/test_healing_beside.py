"""The thread that heals beside the stream: on the real server and on real tables, without a stream."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from pipeline.answers.task import TaskAnswer
from pipeline.driver import healing as driver_healing
from pipeline.driver import told as driver_told
from pipeline.driver.healing import Healing
from pipeline.driver.load import Load
from pipeline.errors import MasterReadFailed, WarehouseRefused
from pipeline.laptop.stack.stack import Stack
from pipeline.master.feed import Changes
from pipeline.master.share import Contract
from pipeline.repair import healer
from tests.kit.running import wait_until
from tests.kit.server_load import ServerLoad
from tests.repair.repair_world import World, fact

P_1 = Changes({"product": pa.array([b"P-1"])}, place="f:1")


class Told:
    turns = failures = 0
    healed = 0

    def healing(self, healed: Mapping[str, int], unknown: Mapping[str, tuple[int, float | None]]) -> None:
        self.turns += 1
        self.healed += sum(healed.values())

    def healing_failed(self) -> None:
        self.failures += 1


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for pause in ("_LOOKS", "_PAUSE", "_AFTER_FAILURE"):
        monkeypatch.setattr(driver_healing, pause, 0.01)
    monkeypatch.setattr(driver_told, "SETTLES", 0.0)


@pytest.fixture
def world(stack: Stack, master_database: str, tmp_path: Path) -> World:
    """An unknown fact whose row has come."""
    world = World(stack, master_database, tmp_path).under("warehouse.heal_rows_per_minute=100")
    world.write([fact(0, kafka_timestamp=datetime.now(timezone.utc).replace(microsecond=0))])
    world.add_products(["P-1"])
    return world


def healing_of(world: World, told: Told) -> Healing:
    return Healing(world.plan, Load(Contract.of_workers(world.plan.settings), 1, 1), told)


@contextmanager
def beside(world: World) -> Iterator[tuple[Healing, Told]]:
    told = Told()
    healing = healing_of(world, told)
    healing.start()
    try:
        yield healing, told
    finally:
        healing.close()
    assert not healing._thread.is_alive()


def keys(world: World) -> list[int]:
    return [row["product_key"] for row in world.facts()]


def test_a_fact_is_healed_when_its_key_was_told_and_the_batch_in_hand_is_committed(world: World) -> None:
    told = Told()
    with closing(healing_of(world, told)) as healing:
        healing.batch_begins()
        healing.heard(P_1)
        healing.start()
        wait_until(lambda: told.turns > 0, "the table was looked at")
        assert keys(world) == [-1]
        healing.batch_committed(TaskAnswer())
        wait_until(lambda: told.healed == 1, "the fact is healed")
    assert keys(world) == [1000]


def test_beside_caps_the_master_is_asked_with_a_part_of_them_once_no_task_has_all(world: World) -> None:
    caps = ("master.connections=2", "master.queries_per_second=20", "master.rows_per_second=400")
    world, told = world.under("warehouse.heal_rows_per_minute=100", *caps), Told()
    healing = healing_of(world, told)
    healing.start()
    with ServerLoad(world.stack, world.database) as seen, closing(healing):
        healing._load.shares(tasks=1)  # a batch is under way
        healing.heard(P_1)
        wait_until(lambda: healing._load._is_wanted, "a part is wanted", 30)
        wait_until(lambda: bool(seen.seen), "the server was looked at", 30)
        assert seen.most_sessions == 0
        healing._load.told([])
        wait_until(lambda: told.healed == 1, "the fact is healed", 30)
    assert keys(world) == [1000]
    assert seen.most_sessions == 1
    assert seen.most_in_a_second()[0] <= 0.25 * 20


def test_what_fails_is_told_and_tried_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    opened, fail = healer.opened, [True, True]

    def sometimes(*arguments: Any) -> Any:
        if fail and fail.pop():
            raise MasterReadFailed("the server is away")
        return opened(*arguments)

    monkeypatch.setattr(healer, "opened", sometimes)
    with beside(world) as (healing, told):
        healing.heard(P_1)
        wait_until(lambda: told.healed == 1, "the fact is healed")
    assert (told.failures, keys(world)) == (2, [1000])


def test_a_dimension_whose_keys_may_repeat_is_left_out_with_a_word_and_the_others_are_healed(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.execute("ALTER TABLE customer DROP PRIMARY KEY, ADD COLUMN id BIGINT AUTO_INCREMENT PRIMARY KEY")
    with caplog.at_level(logging.WARNING, "millrace.healing"), beside(world) as (healing, told):
        healing.heard(Changes(all_of=frozenset({"product", "customer"})))
        wait_until(lambda: told.healed == 1, "the product is healed")
    assert "dimension customer: customer has no unique index on its natural key" in caplog.text
    assert "dimension product" not in caplog.text


def test_a_table_that_must_not_be_healed_refuses_the_start(world: World) -> None:
    DeltaTable(world.uri).alter.set_table_properties({"delta.appendOnly": "true"})
    healing = healing_of(world, Told())
    with pytest.raises(WarehouseRefused, match="appendOnly is set"):
        healing.start()


def test_where_it_is_off_nothing_runs(world: World) -> None:
    with beside(world.under("warehouse.heal_rows_per_minute=0")) as (healing, told):
        healing.heard(P_1)
        healing.batch_begins()
        healing.batch_committed(TaskAnswer())
    assert (told.turns, keys(world)) == (0, [-1])
