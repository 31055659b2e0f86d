"""Sales that are joined as of their time: each gets the row of its key that was valid then, whatever the join, held
against SQL over random tables whose rows begin and end at the very moments of the sales."""

from __future__ import annotations

import random
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from pipeline import columns
from pipeline.config import resources
from pipeline.config.contract_files import Validity
from pipeline.config.contracts import Contracts, DimensionContract, KeyColumn
from pipeline.config.settings import WorkerSettings, load
from pipeline.enrich import Dimension, enrich
from pipeline.errors import BadContract
from pipeline.joins import recipe
from pipeline.master.memory import MemoryMaster
from pipeline.plan import resolve
from tests.joins.harness import VARIANTS, smallest_memory

MOMENT = pa.timestamp("us", "UTC")
LIMITS = WorkerSettings(window_sales=8)
THING = DimensionContract(
    name="thing",
    table="thing",
    natural_key=(KeyColumn("key", "code", "int64"),),
    surrogate_key="surrogate_key",
    updated_at="updated_at",
    attributes={"label": pa.string(), "begins": MOMENT, "ends": MOMENT},
    validity=Validity("begins", "ends", "sold_at"),
)
COUNTING = """
    FROM sales LEFT JOIN master ON code = key AND sold_at IS NOT NULL
      AND (begins IS NULL OR begins <= sold_at) AND (ends IS NULL OR sold_at < ends)"""
RIGHT = f"""
    SELECT coalesce(surrogate_key, -1), label {COUNTING}
    QUALIFY row_number() OVER (PARTITION BY place ORDER BY begins DESC NULLS LAST, surrogate_key DESC) = 1
    ORDER BY place"""
OVERLAPPING = f"SELECT count(*) FROM (SELECT place {COUNTING} GROUP BY place HAVING count(key) > 1)"

Row = tuple[int, int | None, int | None]  # key, begins, ends


def master_table(rows: list[Row]) -> pa.Table:
    keys, begins, ends = zip(*rows, strict=True) if rows else ((), (), ())
    numbers = range(len(rows))
    return pa.table(
        {
            "key": pa.array(keys, pa.int64()),
            "surrogate_key": pa.array([(7 * number) % 1009 for number in numbers], pa.int64()),
            "updated_at": pa.array(numbers, MOMENT),
            "label": pa.array([f"label {number}" for number in numbers], pa.string()),
            "begins": pa.array(begins, MOMENT),
            "ends": pa.array(ends, MOMENT),
        }
    )


def sales_of(sold: list[tuple[int | None, int | None]]) -> pa.Table:
    codes, moments = zip(*sold, strict=True) if sold else ((), ())
    return pa.table(
        {
            "sale.code": pa.array(codes, pa.int64()),
            "sale.sold_at": pa.array(moments, MOMENT),
            columns.TIMESTAMP: pa.array([0] * len(sold), MOMENT),
        }
    )


def by_sql(sales: pa.Table, master: pa.Table, query: str) -> list[tuple[object, ...]]:
    with duckdb.connect() as connection:
        connection.register("master", master)
        named = sales.rename_columns(["code", "sold_at", "sent"])
        connection.register("sales", named.append_column("place", pa.array(range(len(sales)), pa.int64())))
        return connection.execute(query).fetchall()


def joined(dimension: Dimension, sales: pa.Table) -> list[tuple[object, ...]]:
    [together] = enrich(sales, [dimension], LIMITS)
    assert together.select(sales.column_names).equals(sales)
    return list(zip(*(together[f"thing.{name}"].to_pylist() for name in ("surrogate_key", "label")), strict=True))


TAKE_REPEATED_KEYS = [v for v in VARIANTS if recipe(str(v)).reads(unique=False, indexed=True)]


def drawn(seed: int) -> tuple[pa.Table, pa.Table]:
    """Few keys and few moments: rows meet, overlap, begin together, and sales fall on their borders."""
    chance = random.Random(seed)
    moments = [None, *range(7)]
    rows = [(chance.randrange(5), chance.choice(moments), chance.choice(moments)) for _ in range(40)]
    sold = [(chance.choice([None, *range(6)]), chance.choice(moments)) for _ in range(120)]
    return master_table(rows), sales_of(sold)


@pytest.mark.parametrize("variant", TAKE_REPEATED_KEYS, ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_each_sale_gets_the_row_that_was_valid_at_its_time_as_sql_says(variant, seed) -> None:
    table, sales = drawn(seed)
    master = MemoryMaster(table, unique=False, indexed=True)
    dimension = Dimension(THING, variant.build(master, smallest_memory(variant, master) + 4_000 * seed))
    right = by_sql(sales, table, RIGHT)
    for _ in range(2):  # the second time from its cache, if it has one
        assert joined(dimension, sales) == right
    counts = dimension.answer().counts
    unknown = sum(key == -1 for key, _ in right)
    assert (counts.matched, counts.unmatched) == (2 * (len(sales) - unknown), 2 * unknown)
    assert counts.overlapping == 2 * by_sql(sales, table, OVERLAPPING)[0][0]


@pytest.mark.parametrize("variant", [v for v in VARIANTS if v not in TAKE_REPEATED_KEYS], ids=str)
def test_where_a_key_has_one_row_the_joins_that_need_that_take_it_or_leave_it_too(variant) -> None:
    table = master_table([(0, None, 3), (1, 3, None), (2, 2, 4), (3, None, None)])
    sales = sales_of([(code, at) for code in (0, 1, 2, 3, 4) for at in (1, 2, 3, 4, None)])
    master = MemoryMaster(table)
    dimension = Dimension(THING, variant.build(master, smallest_memory(variant, master)))
    assert joined(dimension, sales) == by_sql(sales, table, RIGHT)


def test_a_key_with_more_rows_than_a_window_keeps_one_for_each_sale() -> None:
    table = master_table([(0, begins, begins + 1) for begins in range(500)])
    sales = sales_of([(0, at) for at in range(-1, 501)])
    [variant] = [v for v in TAKE_REPEATED_KEYS if str(v) == "meshjoin"]
    master = MemoryMaster(table, unique=False)
    dimension = Dimension(THING, variant.build(master, smallest_memory(variant, master)))
    assert joined(dimension, sales) == by_sql(sales, table, RIGHT)


@pytest.mark.parametrize(
    ("validity", "why"),
    [
        ('validity = {from = "a", to = "b"}', "must name two of the attributes and a field of the sale"),
        ('validity = {from = "category", to = "valid_to", at = "sold_at"}', "names category, which is 'string'"),
        ('validity = {from = "valid_from", to = "b", at = "sold_at"}', r"names b, which is 'no attribute'.*b = \"time"),
        (
            'validity = {from = "valid_from", to = "valid_to", at = "quantity"}',
            "goes by the sale's field quantity as a",
        ),
        ('validity = {from = "valid_from", to = "valid_to", at = "when"}', r"when as a timestamp, but it is not there"),
    ],
)
def test_a_contract_whose_validity_does_not_fit_is_refused(tmp_path: Path, validity: str, why: str) -> None:
    write_product(tmp_path, validity)
    with pytest.raises(BadContract, match=why):
        resolve(load(None, [f"contracts.folder={tmp_path}"], {}))


def test_a_contract_says_by_which_columns_and_which_time(tmp_path: Path) -> None:
    write_product(tmp_path, '[validity]\nfrom = "valid_from"\nto = "valid_to"\nat = "sold_at"')
    assert Contracts(tmp_path).dimension("product").validity == Validity("valid_from", "valid_to", "sold_at")
    assert Contracts().dimension("product").validity is None


def write_product(folder: Path, validity: str) -> None:
    """The shipped contract with two more attributes and this validity, a line or a table."""
    shipped = (resources.schemas() / "dimensions" / "product.toml").read_text("utf-8")
    attributes = 'valid_from = "timestamp"\nvalid_to = "timestamp"\n'
    line, table = ("", validity) if validity.startswith("[") else (validity, "")
    (folder / "dimensions").mkdir()
    (folder / "dimensions" / "product.toml").write_text(f"{line}\n{shipped}{attributes}{table}\n", "utf-8")
