"""The filter of all keys against a real server and its real log: rows come, go and get other keys, and every sale gets
what a look into the table says."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pipeline import columns
from pipeline.config.measures import Secret
from pipeline.config.settings import WorkerSettings
from pipeline.driver.changelog import ChangeLog
from pipeline.enrich import Dimension, enrich
from pipeline.joins import Options, make
from pipeline.joins.cost import keyfilter as cost
from pipeline.keys import pack
from pipeline.master.open import open_feed
from tests.joins.test_sieve import completed
from tests.kit.fakes import FakeClock
from tests.kit.master_fixtures import Server, dimension

pytestmark = pytest.mark.mysql

WORDS = [
    "ale",
    "ALE",
    "Ale ",
    "bun",
    "café",
    "cafe",
    "d ",
    "d",
    "straße",
    "strasse",
    "日本",
    "😀",
    "it's",
    "back\\slash",
]
KEYS = {
    "an integer without a sign": ("u BIGINT UNSIGNED", {"u": "uint64"}),
    "a text": ("code VARCHAR(80) COLLATE utf8mb4_general_ci", {"code": "string"}),
    "an old text": ("code VARCHAR(80) CHARACTER SET latin1", {"code": "string"}),
    "two columns": ("code VARCHAR(80) COLLATE utf8mb4_general_ci, n BIGINT", {"code": "string", "n": "int64"}),
}
TYPES = {"uint64": pa.uint64(), "string": pa.string(), "int64": pa.int64()}
SOLD = {**TYPES, "uint64": pa.decimal128(20, 0)}


class Table:
    """A table that changes at random."""

    def __init__(self, server: Server, ddl: str, types: dict[str, str]) -> None:
        self.server, self.types, self.choose = server, types, random.Random(7)
        texts = [f"{word}{number}" for number in range(8) for word in WORDS] + ["long" * 19 + str(n) for n in range(9)]
        if "latin1" in ddl:
            texts = [text for text in texts if text.encode("cp1252", "ignore").decode("cp1252") == text]
        values = {"code": texts, "n": [-1, 0, 7], "u": [*range(60), *range(2**63 - 30, 2**63 + 30), 2**64 - 1]}
        self.pool = [tuple(self.choose.choice(values[name]) for name in types) for _ in range(150)]
        server.table(ddl, [])
        for _ in range(40):
            self.change()

    def change(self) -> None:
        """What the collation takes for a key that is there already is left out by the server."""
        new, old = self.choose.choice(self.pool), self.choose.choice(self.pool)
        names, marks = ", ".join(self.types), ", ".join(["%s"] * len(self.types))
        where = " AND ".join(f"{name} = %s" for name in self.types)
        become = ", ".join(f"{name} = %s" for name in self.types)
        statement, values = self.choose.choice(
            [
                (f"INSERT IGNORE INTO t ({names}, sk) VALUES ({marks}, 1)", new),
                (f"INSERT IGNORE INTO t ({names}, sk) VALUES ({marks}, 2)", new),
                (f"REPLACE INTO t ({names}, sk) VALUES ({marks}, 3)", new),
                (f"UPDATE IGNORE t SET {become} WHERE {where}", (*new, *old)),
                (f"DELETE FROM t WHERE {where}", old),
            ]
        )
        self.server.execute(statement, [values])

    def keys(self) -> set[Any]:
        rows = self.server.execute(f"SELECT {', '.join(self.types)} FROM t")
        found = [
            pa.array(part, TYPES[kind]) for part, kind in zip(zip(*rows, strict=True), self.types.values(), strict=True)
        ]
        return set(pack(found).to_pylist())

    def sold(self, times: int) -> list[pa.Array]:
        asked = [self.choose.choice(self.pool) for _ in range(times)]
        return [
            pa.array(part, SOLD[kind]) for part, kind in zip(zip(*asked, strict=True), self.types.values(), strict=True)
        ]


@pytest.mark.parametrize("kind", KEYS)
def test_every_sale_gets_the_row_that_is_there_while_rows_come_go_and_get_other_keys(
    kind: str, stack: Any, master_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cost, "is_worth_making", lambda *_: True)
    monkeypatch.setattr(cost, "is_worth_keeping", lambda *_: True)
    server = Server(stack, master_database)
    server.execute("CREATE TABLE marker (n BIGINT PRIMARY KEY)")
    table = Table(server, *KEYS[kind])
    stack.database.allow_reading(["t", "marker"], master_database)
    thing = dimension(table.types)
    account = stack.database.accounts.reader
    settings = replace(server.settings, user=account.user, password=Secret(account.password))
    contracts = {"thing": thing, "marker": replace(dimension({"n": "int64"}, table="marker"), name="marker")}
    feed, log, clock = open_feed(settings, contracts).follow(), ChangeLog(), FakeClock()
    log.add(next(feed))
    product = Dimension(thing, make("auto", server.master(thing), 100_000, Options(clock=clock)))
    product.begin_batch(log.news())
    completed(product.join, clock, pack(table.sold(50)))
    long_ago = pa.array([1_000_000], pa.timestamp("us", "UTC")).take(pa.array(np.zeros(300, np.int64)))
    ruled_out = 0
    for turn in range(40):
        for _ in range(table.choose.randrange(4)):
            table.change()
        server.execute(f"INSERT INTO marker VALUES ({turn})")
        for piece in feed:
            log.add(piece)
            if turn in piece.keys.get("marker", pa.array([])).to_pylist():
                break
        there, sold = table.keys(), table.sold(300)
        news = log.news()
        product.begin_batch(news)
        assert product.join.knows_all_keys
        fields = {columns.of_sale(name): part for name, part in zip(table.types, sold, strict=True)}
        [enriched] = enrich(pa.table({**fields, columns.TIMESTAMP: long_ago}), [product], WorkerSettings())
        found = enriched[columns.of_dimension("thing", columns.SURROGATE_KEY)].to_pylist()
        assert [sk != -1 for sk in found] == [key in there for key in pack(sold).to_pylist()]
        ruled_out += product.answer().counts.ruled_out
        log.heard(["a worker"], news)
    assert ruled_out > 2_000
    feed.close()
