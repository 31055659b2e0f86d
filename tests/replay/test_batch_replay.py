"""A batch computed again from Kafka and the master's history: equal bit for bit, or each fact that differs by name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake

from pipeline import cli
from pipeline.config.resources import schemas
from pipeline.driver import worker
from pipeline.errors import BadSetting, WarehouseRefused
from pipeline.generate.keys import product_codes
from pipeline.laptop.stack.stack import Stack
from pipeline.repair import Wishes, repair
from tests.replay.replay_world import SIZES, ReplayWorld

pytestmark = pytest.mark.mysql

CODES = product_codes(np.arange(SIZES.products)).to_pylist()
A, B, C = CODES[:3]


@pytest.fixture
def world(stack: Stack, master_database: str, topic: str, tmp_path: Path) -> Iterator[ReplayWorld]:
    yield ReplayWorld.made(stack, master_database, topic, tmp_path)
    worker.forget()
    stack.kafka.delete_topic(topic)


def test_a_batch_is_equal_bit_for_bit_however_the_master_has_changed_since(world: ReplayWorld) -> None:
    world.sync()
    world.sell(A, B, "no such product", None)
    world.send(b"no sale", None)
    world.batch_of(0, 0, 6)
    world.execute(f"UPDATE product SET category = 'other' WHERE product_code = '{A}'")
    world.execute(f"DELETE FROM product WHERE product_code = '{B}'")
    world.sync()
    verdict = world.again(0)
    assert verdict.ok, str(verdict)
    assert (verdict.facts, verdict.rejects, verdict.dimensions["product"].same) == (4, 2, 4)


def test_a_batch_of_rejects_alone_and_one_of_nothing_are_equal_too(world: ReplayWorld) -> None:
    world.sync()
    world.send(b"no sale", None)
    world.batch_of(0, 0, 2)
    verdict = world.again(0)
    assert verdict.ok, str(verdict)
    assert (verdict.facts, verdict.rejects) == (0, 2)
    world.batch_of(1, 2, 2)
    assert "the batch has read no message" in str(world.again(1))
    DeltaTable(f"{world.folder}/warehouse/sales_rejects").delete("offset = 1")
    assert [(d.offset, d.stands) for d in world.again(0).differences] == [(1, "no reject")]


def test_what_changes_while_a_batch_runs_may_be_in_it_before_or_after_the_change(world: ReplayWorld) -> None:
    world.sync()
    world.sell(A, B, C)
    world.batch_of(0, 0, 3, meanwhile=lambda: world.execute(changed(A, "after"), gone(B)))
    world.sync()
    verdict = world.again(0)
    assert verdict.ok, str(verdict)
    assert (verdict.dimensions["product"].same, verdict.dimensions["product"].changed) == (1, 2)
    exact = world.again(0, as_of=verdict.as_json()["as_of"])
    assert [(d.offset, d.column) for d in exact.differences if "version" not in d.column] == [
        (1, "product_key"), (0, "product_category"), (1, "product_category"), (1, "product_brand"),
    ]  # fmt: skip


def test_a_row_that_had_been_replaced_before_the_batch_is_named_with_what_stands_and_what_comes_out(
    world: ReplayWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    world.sync()
    world.execute(changed(A, "old"), gone(B))
    world.sell(A, B, C)
    world.batch_of(0, 0, 3, too_late=lambda: world.execute(changed(A, "new"), came(B, 7)))
    world.execute(changed(C, "later"))
    world.sync()
    verdict = world.again(0)
    assert (verdict.ok, verdict.different, verdict.dimensions["product"].different) == (False, 2, 2)
    told = [(d.offset, d.stands, d.comes_out) for d in verdict.differences if d.column == "product_category"]
    assert told == [(0, "'old'", "'new'"), (1, "null", "'came'")]
    words = [word for given in world.assignments for word in ("--set", given)]
    for options, code in (([], 1), (["--dimension", "store"], 0), (["--json", "--limit", "1"], 1)):
        with pytest.raises(SystemExit) as left:
            cli.main(["replay", "--batch", "0", *options, *words])
        assert left.value.code == code
    lines = capsys.readouterr().out.splitlines()
    assert f"{world.topic}/0 offset 1, product_key: stands -1, comes out 7" in lines
    assert "different: 2 of 3 facts and 0 rejects" in lines
    assert "3 facts and 0 rejects, bit for bit equal" in lines
    assert {"product: left out", "customer: left out"} < set(lines)
    assert len(json.loads(lines[-1])["differences"]) == 1


def test_facts_and_rejects_that_were_touched_are_named(world: ReplayWorld) -> None:
    world.sync()
    world.sell(A, B, C, A)
    world.send(b"no sale", b"none either")
    world.batch_of(0, 0, 6)
    facts, rejects = (DeltaTable(f"{world.folder}/warehouse/{name}") for name in ("fact_sales", "sales_rejects"))
    doubled = facts.to_pyarrow_table().filter(pc.field("offset") == 2)
    facts.update({"quantity": "2", "unit_price": "null"}, predicate="offset = 0")
    facts.delete("offset = 1")
    write_deltalake(facts, doubled, mode="append")
    rejects.delete("offset = 4")
    rejects.update({"reason": "'other'"}, predicate="offset = 5")
    verdict = world.again(0)
    named = [(d.offset, d.column, d.stands, d.comes_out) for d in verdict.differences]
    assert sorted(named) == [
        (0, "quantity", "2", "1"), (0, "unit_price", "null", "12.50"), (1, "", "no fact", "one"),
        (2, "", "more than one fact", "one"), (4, "", "no reject", "one"), (5, "reason", "'other'", "'not_json'"),
    ]  # fmt: skip
    assert verdict.different == 5


@pytest.mark.parametrize("keeps_when", [False, True])
def test_facts_that_were_healed_since_are_as_they_should_be_and_others_are_not(
    world: ReplayWorld, keeps_when: bool
) -> None:
    world = world.keeping_when_facts_were_healed() if keeps_when else world
    world.sync()
    world.execute(gone(A), gone(B))
    world.sell(A, B, C)
    world.batch_of(0, 0, 3)
    world.wait_until_it_is_history(0)
    world.execute(came(A, 7))
    list(repair(world.plan, Wishes()))
    world.sync()
    verdict = world.again(0)
    assert verdict.ok, str(verdict)
    assert (verdict.dimensions["product"].healed, verdict.dimensions["product"].same) == (1, 2)
    DeltaTable(f"{world.folder}/warehouse/fact_sales").update({"product_key": "8"}, predicate="offset = 0")
    assert str(world.again(0).differences[0]).endswith("product_key: stands 8, comes out -1")
    if keeps_when:  # before the row came: nobody can have healed it then
        facts = DeltaTable(f"{world.folder}/warehouse/fact_sales")
        facts.update({"product_key": "7", "healed_at": "kafka_timestamp"}, predicate="offset = 0")
        assert not world.again(0).ok


def test_what_entered_later_is_not_of_the_batch_and_contracts_of_another_day_are_noted(world: ReplayWorld) -> None:
    world.sync()
    world.sell(A)
    world.sell(B, currency="eur")
    world.batch_of(0, 0, 2)
    mended = world.mended(currency={"pattern": "^[A-Za-z]{3}$"})
    assert mended.replay().valid
    verdict = mended.again(0)
    assert verdict.ok, str(verdict)
    assert (verdict.entered, verdict.notes) == (1, ["contracts, or the release, are not those that the batch went by"])


def test_offsets_that_kafka_has_deleted_are_named_and_the_others_held_against_the_facts(world: ReplayWorld) -> None:
    world.sync()
    world.sell(A, B, C)
    world.batch_of(0, 0, 3)
    world.forget_messages(before=2)
    verdict = world.again(0)
    assert not verdict.ok
    assert (verdict.facts, verdict.different) == (1, 0)
    assert f"{world.topic}/0: Kafka has deleted offsets 0 to 1: it is not known what they were" in str(verdict)


def test_a_history_that_does_not_know_the_moment_is_refused_with_what_it_knows(world: ReplayWorld) -> None:
    world.sell(A, B, C, A, B)
    world.batch_of(0, 0, 1)
    with pytest.raises(WarehouseRefused, match=r"there is no history at \S+dim_product. Run `millrace sync`"):
        world.again(0)
    world.execute(changed(A, "w"))
    world.sync()
    with pytest.raises(WarehouseRefused, match=r"dim_product begins at \S+:\d+, as far as its log tells: what was at"):
        world.again(0)
    world.execute(changed(A, "x"))
    world.batch_of(1, 1, 2)
    with pytest.raises(
        WarehouseRefused, match=r"dim_product is told up to .* the batch is as of .* Run `millrace sync`"
    ):
        world.again(1)
    world.sync()
    assert world.again(1).ok
    world.execute("ALTER TABLE product ADD COLUMN more INT NULL")
    world.batch_of(2, 2, 3)
    world.execute(changed(A, "y"))
    world.sync()
    with pytest.raises(WarehouseRefused, match=r"does not know what was between \S+ and \S+, and the batch is as of"):
        world.again(2)
    world.batch_of(3, 3, 4, noting="polled")
    with pytest.raises(
        WarehouseRefused, match=r"batch 3 notes no place .* the feed polled.* --as-of: it was committed"
    ):
        world.again(3)
    assert world.again(3, as_of=world.now).ok
    with pytest.raises(WarehouseRefused, match=r"dim_product begins at 20\S+ \S+ UTC.* what was before"):
        world.again(3, as_of="2001-01-01")
    with pytest.raises(WarehouseRefused, match=r"has no batch 9 of the job millrace: the newest is 3"):
        world.again(9)


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ("dimensions.product.history=type 1", 'history = "type 1" keeps rows as they are, not as they were'),
        ("dimensions.product.history=off", 'history = "off" keeps nothing.*--dimension customer --dimension store'),
    ],
)
def test_a_dimension_without_versions_is_refused_by_name(world: ReplayWorld, setting: str, why: str) -> None:
    world.sell(A)
    world.batch_of(0, 0, 1)
    with pytest.raises(BadSetting, match=why):
        world.under(setting).again(0)


def test_a_master_that_keeps_a_row_for_each_time_itself_is_refused_by_name(world: ReplayWorld) -> None:
    world.sell(A)
    world.batch_of(0, 0, 1)
    contract = world.folder / "contracts" / "dimensions" / "product.toml"
    contract.parent.mkdir(parents=True)
    times = 'valid_from = "timestamp"\nvalid_to = "timestamp"\n'
    validity = times + '[validity]\nfrom = "valid_from"\nto = "valid_to"\nat = "sold_at"\n'
    contract.write_text(f"{(schemas() / 'dimensions' / 'product.toml').read_text()}\n{validity}")
    said = r"dimension product: product keeps a row for each time.*--dimension customer"
    with pytest.raises(BadSetting, match=said):
        world.under(f"contracts.folder={contract.parents[1]}").again(0)


def changed(code: str, category: str) -> str:
    return f"UPDATE product SET category = '{category}' WHERE product_code = '{code}'"


def gone(code: str) -> str:
    return f"DELETE FROM product WHERE product_code = '{code}'"


def came(code: str, key: int) -> str:
    values = f"product_code = '{code}', product_key = {key}, category = 'came', brand = '', name = ''"
    return f"INSERT INTO product SET {values}"
