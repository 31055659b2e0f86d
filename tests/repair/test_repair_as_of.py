"""Joins as of the sale's time against a real server: the joins, the repair, the proof and `why` agree with its SQL."""

from __future__ import annotations

import random
from contextlib import closing
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pipeline import columns
from pipeline.config.settings import WorkerSettings
from pipeline.enrich import Dimension, enrich
from pipeline.errors import BadContract, NotUnique
from pipeline.laptop.stack.stack import Stack
from pipeline.master.open import open_master
from pipeline.reconcile import masters
from pipeline.reconcile.broker import Place
from pipeline.reconcile.tables import NotReconcilable, WarehouseTable
from pipeline.reconcile.why import why
from tests.kit import versions
from tests.repair.repair_world import World, fact, without

START = datetime(2026, 11, 18, 9, 30, 0, 250, timezone.utc)
CHOSEN = """
    SELECT product_key FROM product
    WHERE product_code = %s AND (valid_from IS NULL OR valid_from <= %s) AND (valid_to IS NULL OR %s < valid_to)
    ORDER BY valid_from IS NOT NULL DESC, valid_from DESC, product_key DESC LIMIT 1"""


def at(tick: int) -> datetime:
    return START + timedelta(microseconds=tick)


class History(World):
    """A world whose products have versions."""

    def add(self, *rows: tuple[str, int, int | None, int | None]) -> None:
        """Code, surrogate key, and the ticks of its beginning and its end."""
        values = (f"('{c}', {k}, 'c{k}', NULL, {sql(b)}, {sql(e)}, '{at(0):%F %T.%f}')" for c, k, b, e in rows)
        self.execute(f"INSERT INTO product VALUES {', '.join(values)}")

    def keys(self) -> list[int]:
        return [row["product_key"] for row in sorted(self.facts(), key=lambda row: row["offset"])]


def sql(tick: int | None) -> str:
    return "NULL" if tick is None else f"'{at(tick):%F %T.%f}'"


@pytest.fixture
def history(stack: Stack, master_database: str, tmp_path: Path) -> History:
    contracts = versions.contract_in(tmp_path / "contracts")
    world = History(stack, master_database, tmp_path, (f"contracts.folder={contracts}",))
    world.execute("DROP TABLE product")
    world.execute(versions.TABLE)
    return world


def asked(world: World, sales: pa.Table, *settings: str) -> list[int]:
    plan = world.under(*world.settings, *settings).plan
    contract = plan.dimensions["product"]
    with open_master(plan.settings.master, contract) as master:
        dimension = Dimension(contract, plan.make_join("product", master))
        [together] = enrich(sales, [dimension], WorkerSettings(window_sales=300))
    return together["product.surrogate_key"].to_pylist()


@pytest.mark.mysql
@pytest.mark.parametrize(
    ("algorithm", "front_stage"),
    [
        *((name, "false") for name in ("auto", "inlj", "meshjoin", "r-meshjoin", "cmeshjoin")),
        *((name, "true") for name in ("inlj", "meshjoin", "r-meshjoin")),
    ],
)
def test_every_join_that_takes_repeated_keys_gives_what_the_servers_own_sql_gives(
    history: History, algorithm: str, front_stage: str
) -> None:
    chance = random.Random(algorithm)
    ticks = [None, *range(12)]
    begun = {(f"P-{chance.randrange(20)}", chance.choice(ticks)) for _ in range(150)}
    numbered = enumerate(sorted(begun, key=str))
    history.add(*((code, key, begins, chance.choice(ticks)) for key, (code, begins) in numbered))
    sold = [(f"P-{chance.randrange(22)}", at(chance.randrange(-1, 13))) for _ in range(1_000)]
    sales = pa.table(
        {
            "sale.product_code": pa.array([code for code, _ in sold]),
            "sale.sold_at": pa.array([moment for _, moment in sold], columns.MESSAGE[columns.TIMESTAMP]),
            columns.TIMESTAMP: pa.array([START] * len(sold), columns.MESSAGE[columns.TIMESTAMP]),
        }
    )
    with history.stack.database.connect("owner", history.database) as connection, connection.cursor() as cursor:
        right = []
        for code, moment in sold:
            naive = moment.replace(tzinfo=None)
            cursor.execute(CHOSEN, (code, naive, naive))
            right.append(next((key for (key,) in cursor.fetchall()), -1))
    assert 100 < right.count(-1) < 900
    chosen = {"algorithm": algorithm, "front_stage": front_stage, "memory": "4 MiB"}
    assert asked(history, sales, *(f"dimensions.product.{name}={value}" for name, value in chosen.items())) == right


def test_a_join_that_needs_one_row_a_key_refuses_by_name(history: History) -> None:
    history.add(("P-1", 1, 0, 5), ("P-1", 2, 5, None))
    plan = history.under(*history.settings, "dimensions.product.algorithm=hybridjoin").plan
    with open_master(plan.settings.master, plan.dimensions["product"]) as master:
        with pytest.raises(NotUnique, match="hybridjoin needs a unique index"):
            plan.check_join("product", master)
        assert master.verify(needs_unique_index=False) == []


def test_rows_that_may_begin_at_one_moment_are_told_at_the_start(history: History) -> None:
    history.execute("ALTER TABLE product DROP INDEX begins")
    plan = history.plan
    with open_master(plan.settings.master, plan.dimensions["product"]) as master:
        [told] = master.verify(needs_unique_index=False)
    assert "no usable unique index on exactly (product_code, valid_from)" in told


def sold_at(offset: int, tick: int, **values: Any) -> dict[str, Any]:
    return fact(offset, "P-1", sold_at=at(tick), **values)


def proof(history: History) -> masters.DimensionFound:
    facts = WarehouseTable(history.plan.settings, history.plan.facts)
    facts.require(masters.asked_by(history.plan.dimensions["product"]))
    with closing(masters.connect(history.plan.settings.master)) as database:
        return masters.check(facts, history.plan.dimensions["product"], database)


@pytest.mark.mysql
def test_a_repair_gives_each_fact_the_row_of_its_time_and_reconcile_agrees_with_it_and_with_nothing_else(
    history: History,
) -> None:
    history.write([sold_at(0, -1), sold_at(1, 0), sold_at(2, 4)], [sold_at(3, 5), sold_at(4, 9), sold_at(5, 10)])
    history.add(("P-1", 7, 0, 5), ("P-1", 8, 5, 10))
    assert not proof(history).check.ok
    said = history.repair(dimensions=("product",))
    assert said[0].startswith("product: 6 unknown facts, 4 healed, 2 still unknown")
    assert history.keys() == [-1, 7, 7, 8, 8, -1]
    found = proof(history)
    assert found.check.ok
    assert found.unmatched == 2
    history.execute("UPDATE product SET valid_from = valid_from + INTERVAL 1 MICROSECOND WHERE product_key = 8")
    assert not proof(history).check.ok


def test_why_shows_the_row_that_was_valid(history: History) -> None:
    history.write([sold_at(0, 4, product_key=7, product_category="c7", product_version=at(0))])
    history.add(("P-1", 7, 0, 5), ("P-1", 8, 5, 10))
    plan = history.under(*history.settings, f"kafka.bootstrap={history.stack.info().bootstrap}").plan
    [line] = [text for name, text in why(plan, Place("sales", 0), 0).lines if name == "product"]
    assert "valid at 2026-11-18 09:30:00.000254 UTC" in line
    assert "surrogate_key = 7" in line
    assert "as in the fact" in line
    assert "surrogate_key = 8" not in line


def test_facts_that_do_not_keep_the_sales_time_are_refused_by_name(history: History) -> None:
    lacking = history.with_contract(without(history.plan.facts, "sale.sold_at"))
    with pytest.raises(BadContract, match=r"no column from 'sale\.sold_at', which says which row of dimension product"):
        lacking.repair()
    facts = WarehouseTable(lacking.plan.settings, lacking.plan.facts)
    with pytest.raises(NotReconcilable, match=r"no column from 'sale\.sold_at'"):
        facts.require(masters.asked_by(lacking.plan.dimensions["product"]))
