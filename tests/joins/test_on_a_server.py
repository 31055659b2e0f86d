"""Every join against a real server: the same answer as the server's own SQL, whatever its collation thinks of keys."""

import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest

from pipeline.keys import pack
from pipeline.laptop.stack.stack import Stack
from pipeline.master.port import Master
from tests.joins.harness import VARIANTS, Variant, drive, smallest_memory
from tests.kit.master_fixtures import Server, dimension

pytestmark = pytest.mark.mysql

IN_A_SALE = {"code": pa.string(), "n": pa.int64(), "u": pa.decimal128(20, 0)}
WORDS = ["ale", "Bun", "café", "d ", "straße", "日本", "😀", "e\u0301", "it's", "back\\slash"]
KEYS = {
    "an integer": ("n BIGINT", {"n": "int64"}),
    "an integer without a sign": ("u BIGINT UNSIGNED", {"u": "uint64"}),
    "a text": ("code VARCHAR(40) COLLATE utf8mb4_general_ci", {"code": "string"}),
    "two columns": ("code VARCHAR(40) COLLATE utf8mb4_general_ci, n BIGINT", {"code": "string", "n": "int64"}),
}


def master_rows() -> list[dict[str, object]]:
    # `u` lies on both sides of the largest number that has a sign.
    return [
        {"n": 3 * number, "u": 2**63 + 3 * (number - 150), "code": f"{WORDS[number % len(WORDS)]}{number}"}
        for number in range(300)
    ]


def sales(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    """Skewed sales, some with keys that only look like a row's, some with none."""
    random = np.random.default_rng(3)
    weights = 1 / np.arange(1, len(rows) + 1)
    changes = [
        lambda sale: sale,
        lambda sale: {**sale, "code": sale["code"].upper()},
        lambda sale: {**sale, "code": sale["code"] + " "},
        lambda sale: {**sale, "code": sale["code"].replace("é", "e")},
        lambda sale: {**sale, "n": sale["n"] + 1, "u": (sale["u"] + 2**63) % 2**64},
        lambda sale: {"code": None, "n": None, "u": None},
    ]
    return [
        changes[random.choice(len(changes), p=[0.75, 0.05, 0.05, 0.05, 0.05, 0.05])](rows[place])
        for place in random.choice(len(rows), 700, p=weights / weights.sum())
    ]


@dataclass(frozen=True)
class Sold:
    """Sales of a master table on the server, and the server's own answer."""

    master: Master
    keys: pa.Array
    by_sql: Counter


@pytest.fixture(scope="session", params=KEYS)
def sold(request: pytest.FixtureRequest, stack: Stack) -> Iterator[Sold]:
    """For all joins: they only read."""
    ddl, types = KEYS[request.param]
    rows, database = master_rows(), f"master_{uuid.uuid4().hex[:12]}"
    each = sales(rows)
    stack.database.create_database(database)
    server = Server(stack, database)
    server.table(ddl, [[row[column] for column in types] for row in rows])
    keys = pack([pa.array([sale[column] for sale in each], IN_A_SALE[column]) for column in types])
    yield Sold(server.master(dimension(types)), keys, by_sql(server, types, each))
    stack.database.drop_database(database)


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_a_join_answers_as_the_servers_own_sql(sold: Sold, variant: Variant) -> None:
    join = variant.build(sold.master, smallest_memory(variant, sold.master) + 8_000)
    served = drive(join, sold.keys, cuts=[200, 450], check_every=9)
    answer = Counter(
        (int(sale), None if row < 0 else piece.rows["surrogate_key"][int(row)].as_py())
        for piece in served
        for sale, row in zip(piece.sales, piece.match, strict=True)
    )
    assert answer == sold.by_sql


def by_sql(server: Server, types: dict[str, str], sold: list[dict[str, object]]) -> Counter:
    """The server's own left join, its texts compared as bytes."""
    server.execute("CREATE TABLE sale (position INT PRIMARY KEY, code VARBINARY(200), n BIGINT, u DECIMAL(20))")
    server.execute(
        "INSERT INTO sale VALUES (%s, %s, %s, %s)",
        [(place, sale["code"] and sale["code"].encode(), sale["n"], sale["u"]) for place, sale in enumerate(sold)],
    )
    same = {"code": "CAST(t.code AS BINARY) = sale.code", "n": "t.n = sale.n", "u": "t.u = sale.u"}
    condition = " AND ".join(same[column] for column in types)
    return Counter(server.execute(f"SELECT position, sk FROM sale LEFT JOIN t ON {condition}"))
