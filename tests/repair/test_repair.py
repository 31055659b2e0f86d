"""Facts of the unknown member get the master rows that have come since, and nothing else changes: on the real server
and on real tables."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from deltalake import DeltaTable

from pipeline import cli
from pipeline.config.measures import Seconds
from pipeline.errors import BadSetting
from pipeline.laptop.stack.stack import Stack
from pipeline.reconcile import masters
from pipeline.reconcile.tables import WarehouseTable
from pipeline.warehouse.log import TableLog
from tests.repair.repair_world import CHANGED, World, as_toml, fact, healed, known, type_name, without


@pytest.fixture
def world(stack: Stack, master_database: str, tmp_path: Path) -> World:
    return World(stack, master_database, tmp_path)


@pytest.mark.mysql
def test_unknown_facts_become_known_and_all_others_stay_as_they_were(world: World) -> None:
    rows = [fact(0, "P-1"), known(1), fact(2, "p-1"), fact(3, "P-2"), fact(4, "P-1 ")]
    world.write(rows[:2], rows[2:])
    world.add_products(["P-1", "P-2"])
    before = world.facts()
    said = world.repair()
    expected = [before[0], *before[1:]]
    for row in expected:
        if row["product_code"] in ("P-1", "P-2") and row["product_key"] == -1:
            row |= healed(row, 1000 if row["product_code"] == "P-1" else 1001)
    assert world.facts() == expected
    assert [row["product_key"] for row in sorted(expected, key=lambda row: row["offset"])] == [1000, 9, -1, 1001, -1]
    assert said[0] == "product: 4 unknown facts, 2 healed, 2 still unknown, the oldest of 2026-11-18 09:32:00 UTC"
    assert said[1] == "customer: 0 unknown facts, 0 healed, 0 still unknown"


def test_twice_is_the_same_as_once(world: World) -> None:
    world.write([fact(0), fact(1)])
    world.add_products(["P-1"])
    world.repair()
    once, version = world.facts(), world.version()
    assert world.repair()[0] == "product: 0 unknown facts, 0 healed, 0 still unknown"
    assert (world.facts(), world.version()) == (once, version)


def test_a_dry_run_tells_the_same_and_changes_nothing(world: World) -> None:
    world.write([fact(0), fact(1, "P-9")])
    world.add_products(["P-1"])
    version = world.version()
    said = world.repair(dry_run=True)
    assert said[0].startswith("product: 2 unknown facts, 1 could be healed, 1 still unknown, the oldest of")
    assert world.version() == version


def test_each_dimension_is_healed_by_itself(world: World) -> None:
    both = {"customer_key": -1, "customer_segment": None, "customer_country": None, "customer_version": None}
    world.write([fact(0, **both), fact(2, "P-9", **both), known(4, **both)])
    world.add_products(["P-1"])
    world.add_customer(70, key=5)
    before = world.facts()
    said = world.repair()
    customer = {"customer_key": 5, "customer_segment": "shop", "customer_country": "AT", "customer_version": CHANGED}
    assert world.facts() == [healed(before[0], 1000) | customer, before[1] | customer, before[2] | customer]
    assert said[0].startswith("product: 2 unknown facts, 1 healed, 1 still unknown")
    assert said[1].startswith("customer: 3 unknown facts, 3 healed, 0 still unknown")


def test_only_the_named_dimensions_are_healed(world: World) -> None:
    world.write([fact(0, customer_key=-1)])
    world.add_products(["P-1"])
    world.add_customer(70, key=5)
    assert [line.partition(":")[0] for line in world.repair(dimensions=("customer",))] == ["customer"]
    [row] = world.facts()
    assert (row["product_key"], row["customer_key"]) == (-1, 5)
    with pytest.raises(BadSetting, match=r"--dimension shop: .*a surrogate key of product, customer, store"):
        world.repair(dimensions=("shop",))


def test_a_sale_without_a_natural_key_stays_unknown_and_is_not_counted(world: World) -> None:
    world.write([fact(0, None), fact(1)])
    world.add_products(["P-1"])
    assert world.repair()[0] == "product: 1 unknown facts, 1 healed, 0 still unknown"
    assert sorted(row["product_key"] for row in world.facts()) == [-1, 1000]


def test_no_more_facts_are_healed_than_the_limit_says(world: World) -> None:
    world.write([fact(offset) for offset in range(10)])
    world.add_products(["P-1"])
    said = world.repair(limit=4)
    assert said[0].startswith("product: 10 unknown facts, 4 healed, 6 still unknown")
    assert said[-1] == "stopped after 4 facts (--limit); run it again for the others"
    assert sum(row["product_key"] == 1000 for row in world.facts()) == 4
    world.repair()
    assert all(row["product_key"] == 1000 for row in world.facts())


def test_it_goes_by_windows_each_of_which_is_a_commit(world: World) -> None:
    world.write(*[[fact(offset) for offset in range(3 * b, 3 * b + 3)] for b in range(4)])
    world.add_products(["P-1"])
    version = world.version()
    assert world.under("worker.window_sales=5").repair()[0].startswith("product: 12 unknown facts, 12 healed")
    assert world.version() == version + 2
    assert [row["product_key"] for row in world.facts()] == [1000] * 12


def test_facts_beyond_the_age_limit_stay_unknown(world: World) -> None:
    now = datetime.now(timezone.utc).replace(microsecond=0)
    world.write([fact(0, kafka_timestamp=now - timedelta(hours=2)), fact(2, kafka_timestamp=now)])
    world.add_products(["P-1"])
    assert world.repair(age_limit=Seconds(3600))[0] == "product: 1 unknown facts, 1 healed, 0 still unknown"
    assert [row["product_key"] for row in world.facts()] == [-1, 1000]


def test_earlier_versions_show_the_facts_as_they_were(world: World) -> None:
    world.write([fact(0), known(1)])
    world.add_products(["P-1"])
    before, version = world.facts(), world.version()
    world.repair()
    assert world.facts(version) == before != world.facts()


def test_a_healed_fact_says_when_if_the_contract_has_a_place_for_it(world: World) -> None:
    shipped = world.plan.facts
    sources = [(c.name, type_name(c.type), c.source) for c in shipped.columns]
    told = [*sources, ("healed_at", "timestamp", "fact.healed_at")]
    world = world.with_contract(as_toml(shipped.name, shipped.partition_by, told))
    world.write([fact(0), fact(2, "P-9"), known(4)])
    world.add_products(["P-1"])
    began = datetime.now(timezone.utc)
    world.repair()
    at, *others = [row["healed_at"] for row in world.facts()]
    assert began <= at <= datetime.now(timezone.utc)
    assert others == [None, None]


def test_what_a_commit_heals_is_said_in_the_log_and_the_job_still_finds_its_batches(world: World) -> None:
    world.write([fact(0)], [fact(1)])
    for number in range(12):  # more than the log's readers look at first
        world.execute("DELETE FROM product")
        world.add_products(["P-1"], first_key=number)
        world.write([fact(10 + number)], first=2 + number) if number == 0 else None
        DeltaTable(world.uri).update(new_values={"product_key": -1})
        world.repair()
    said = json.loads(DeltaTable(world.uri).history(1)[0]["userMetadata"])
    assert said["healed"] == {"product": 3, "customer": 0, "store": 0}
    assert (said["application"], said["position"]) == ("millrace", None)
    warehouse = world.warehouse()
    assert warehouse.last_batch() == 2
    assert warehouse.last_note() == {"offsets": {"sales/0": 2}}
    assert warehouse.standings()[0].taken_back is None
    world.write([fact(50)], first=3)
    assert TableLog(world.uri, {}).last_batch("millrace") == 3


def test_facts_without_the_columns_that_only_help_are_healed_too(world: World) -> None:
    contract = world.plan.facts
    for source in ("message.timestamp", "job.application", "job.batch", "product.updated_at"):
        contract = replace(contract, columns=tuple(c for c in contract.columns if c.source != source))
    world = world.with_contract(without(contract, ""))
    world.write([{n: v for n, v in fact(0).items() if n in contract.schema.names}])
    world.add_products(["P-1"])
    assert world.repair()[0] == "product: 1 unknown facts, 1 healed, 0 still unknown"
    assert world.facts()[0]["product_key"] == 1000


def test_the_command_says_it_in_plain_lines(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.write([fact(0)])
    world.add_products(["P-1"])
    server = world.plan.settings.master
    words = [f"{n}={getattr(server, n)}" for n in ("host", "port", "user", "database")]
    words += [f"master.password={server.password!s}"[7:], f"path={world.folder}/warehouse"]
    given = [w for word in words[:-1] for w in ("--set", f"master.{word}")] + ["--set", f"warehouse.{words[-1]}"]
    with pytest.raises(SystemExit) as left:
        cli.main(["repair", "--dimension", "product", "--age-limit", "3650 d", *given])
    assert left.value.code == 0
    assert capsys.readouterr().out == "product: 1 unknown facts, 1 healed, 0 still unknown\n"


def test_reconcile_agrees_after_a_repair(world: World) -> None:
    """Its own SQL calls a fact wrong that is unknown although its row is there."""
    world.write([fact(0), fact(1, "P-9")])
    world.add_products(["P-1"])
    facts = WarehouseTable(world.plan.settings, world.plan.facts)
    with closing(masters.connect(world.plan.settings.master)) as database:
        product = world.plan.dimensions["product"]
        assert not masters.check(facts, product, database).check.ok
        world.repair()
        after = masters.check(WarehouseTable(world.plan.settings, world.plan.facts), product, database)
    assert after.check.ok
    assert after.unmatched == 1
