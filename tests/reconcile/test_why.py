"""What became of one message, told from where it lies."""

from __future__ import annotations

import pytest

from pipeline import cli
from pipeline.reconcile.broker import Place
from pipeline.reconcile.why import Told, why
from tests.reconcile.test_reconcile import TOPIC, World, world

__all__ = ["world"]  # the fixture


@pytest.fixture(scope="module")
def tables(world: World) -> World:
    assert world.verdict().ok
    return world


def of(world: World, row: dict) -> Told:
    return why(world.plan, Place(row["topic"], row["partition"]), row["offset"])


def line(told: Told, name: str) -> str:
    [text] = [text for of, text in told.lines if of == name]
    return text


def test_a_fact_is_told_with_its_message_and_the_rows_that_it_was_joined_with(tables: World) -> None:
    row = next(row for row in tables.facts if row["product_key"] != -1)
    told = of(tables, row)
    assert told.is_there
    assert row["sale_id"] in line(told, "message")
    assert f"product_key = {row['product_key']}" in line(told, tables.plan.facts.name)
    assert f"surrogate_key = {row['product_key']}" in line(told, "product")
    assert line(told, "product").endswith("(as in the fact)")


def test_of_a_fact_of_the_unknown_member_it_is_told_whether_the_master_has_the_row_now(tables: World) -> None:
    absent = next(row for row in tables.facts if row["product_key"] == -1 and row["product_code"] is not None)
    code = absent["product_code"]
    assert line(of(tables, absent), "product") == f"product_code = {code}: product has no such row now"
    null = next(row for row in tables.facts if row["product_code"] is None)
    assert line(of(tables, null), "product") == "product_code = null: a null key has no master row, ever"


def test_a_reject_is_told_with_its_reason(tables: World) -> None:
    told = of(tables, tables.rejects[0])
    assert told.is_there
    assert tables.rejects[0]["reason"] in line(told, tables.plan.rejects.name)


def test_what_no_batch_has_read_and_what_kafka_does_not_have_is_said(tables: World) -> None:
    told = why(tables.plan, Place(TOPIC, 0), 10**9)
    assert not told.is_there
    assert "Kafka does not have it" in line(told, "message")
    assert "no batch has read it yet" in line(told, "tables")
    assert "Kafka does not" in line(why(tables.plan, Place("no-such-topic", 0), 0), "message")


def test_the_command_prints_a_line_a_thing_and_its_exit_code_says_whether_there_is_one(
    tables: World, capsys: pytest.CaptureFixture[str]
) -> None:
    given = tables.plan.settings
    row = tables.facts[0]
    options = {
        "kafka.bootstrap": given.kafka.bootstrap, "kafka.topics": TOPIC, "master.port": given.master.port,
        "master.user": given.master.user, "master.password": str(given.master.password),
        "master.database": given.master.database, "warehouse.path": given.warehouse.path,
    }  # fmt: skip
    words = [word for name, value in options.items() for word in ("--set", f"{name}={value}")]
    for offset, code in ((row["offset"], 0), (10**9, 1)):
        with pytest.raises(SystemExit) as left:
            cli.main(["why", TOPIC, str(row["partition"]), str(offset), *words])
        assert left.value.code == code
    assert capsys.readouterr().out.startswith("message ")
