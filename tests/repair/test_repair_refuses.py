"""What a repair does not do, it refuses by name before anything is changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, TableFeatures

from pipeline import cli
from pipeline.config.measures import Seconds
from pipeline.errors import BadContract, BadSetting, NotUnique, WarehouseRefused
from pipeline.laptop.stack.stack import Stack
from pipeline.warehouse.log import TableLog
from tests.repair.repair_world import World, fact, without


@pytest.fixture
def world(stack: Stack, master_database: str, tmp_path: Path) -> World:
    return World(stack, master_database, tmp_path)


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("sale.product_code", r"no column from 'sale\.product_code', which is the natural key of dimension product"),
        ("message.offset", r"no column from 'message\.offset', which tells a fact from all others"),
        ("message.timestamp", r"no column from 'message\.timestamp', which says how old a fact is"),
    ],
)
def test_facts_that_lack_what_a_repair_goes_by_are_refused(world: World, source: str, why: str) -> None:
    world = world.with_contract(without(world.plan.facts, source))
    with pytest.raises(BadContract, match=why + r".*\[\[column\]\].*from = "):
        world.repair(age_limit=Seconds(1))


def test_a_master_whose_keys_may_repeat_is_refused_by_name(world: World) -> None:
    world.write([fact(0)])
    world.execute("ALTER TABLE product DROP PRIMARY KEY, ADD COLUMN id BIGINT AUTO_INCREMENT PRIMARY KEY")
    with pytest.raises(NotUnique, match=r"dimension product: product has no unique index.*--dimension"):
        world.repair()
    world.repair(dimensions=("customer",))


@pytest.mark.parametrize(
    ("ask", "why"),
    [
        (lambda table: table.alter.set_table_properties({"delta.appendOnly": "true"}), "appendOnly is set"),
        (lambda table: table.alter.add_feature(TableFeatures.DeletionVectors, True), "deletion vectors"),
        (lambda table: table.alter.add_constraint({"some": "quantity > -5"}), "the CHECK constraint some"),
    ],
)
def test_a_table_that_must_not_be_healed_is_refused(world: World, ask: Any, why: str) -> None:
    world.write([fact(0)])
    ask(DeltaTable(world.uri))
    with pytest.raises(WarehouseRefused, match=why):
        world.repair()


def test_a_table_that_lacks_a_column_of_the_contract_waits_for_the_job(world: World) -> None:
    facts = world.plan.facts
    DeltaTable.create(world.uri, facts.schema.remove(6), partition_by=list(facts.partition_by))
    with pytest.raises(WarehouseRefused, match=r"has no column unit_price.*Run the job once"):
        world.repair()


def test_without_a_table_there_is_nothing_to_heal(world: World) -> None:
    assert world.repair() == ["fact_sales: there is no such table yet, nothing to heal"]


def test_on_s3_the_spark_writer_must_stand_still(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.write([fact(0)])
    monkeypatch.setattr("pipeline.warehouse.storage.table_uri", lambda *_: world.uri)
    monkeypatch.setattr(TableLog, "__init__", _on_s3(TableLog.__init__))
    spark = world.under("warehouse.writer=spark")
    with pytest.raises(WarehouseRefused, match=r"on S3 .*--job-is-stopped"):
        spark.repair()
    spark.repair(job_is_stopped=True)
    world.repair()


def _on_s3(opened: Any) -> Any:
    def init(log: TableLog, uri: str, options: dict[str, str]) -> None:
        opened(log, uri, options)
        log.uri = "s3://lake/fact_sales"

    return init


def test_facts_without_a_surrogate_key_are_refused(world: World) -> None:
    contract = world.plan.facts
    kept = tuple(c for c in contract.columns if not c.source.endswith(".surrogate_key"))
    world = world.with_contract(without(replace(contract, columns=kept), ""))
    with pytest.raises(BadContract, match=r"no column is the surrogate key of a dimension.*product\.surrogate_key"):
        world.repair()


@pytest.mark.parametrize(("options", "why"), [(["--limit", "0"], "at least 1"), (["--age-limit", "old"], "30 d")])
def test_options_that_mean_nothing_are_refused(options: list[str], why: str, capsys: Any) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main(["repair", *options])
    assert left.value.code == 2
    assert why in capsys.readouterr().err


def test_a_job_that_is_to_heal_and_would_hear_of_nothing_is_refused(world: World) -> None:
    with pytest.raises(BadSetting, match=r"heal_rows_per_minute = 10 needs a feed.*auto, binlog or poll"):
        _ = world.under("warehouse.heal_rows_per_minute=10", "master.feed=off").plan
    _ = world.under("warehouse.heal_rows_per_minute=10", "master.feed=poll").plan


@pytest.mark.parametrize("cap", ["connections", "queries_per_second", "rows_per_second"])
def test_a_job_that_is_to_heal_with_too_little_to_be_shared_is_refused(world: World, cap: str) -> None:
    little, least = (199, 200) if cap == "rows_per_second" else (1, 2)
    with pytest.raises(BadSetting, match=rf"too little to be shared. Let master\.{cap} be {least} at least.*repair"):
        _ = world.under("warehouse.heal_rows_per_minute=10", f"master.{cap}={little}").plan
    _ = world.under("warehouse.heal_rows_per_minute=10", f"master.{cap}={least}").plan
