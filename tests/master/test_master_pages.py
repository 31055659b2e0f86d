"""Pages of the key's index on the real server: their borders, their rows, and what else is asked for in passing."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from pipeline.keys import pack
from tests.kit.master_fixtures import COLUMNS, Server, dimension

pytestmark = pytest.mark.mysql

COLLATIONS = [
    ("utf8mb4", "utf8mb4_general_ci"),
    ("utf8mb4", "utf8mb4_unicode_ci"),
    ("utf8mb4", "utf8mb4_bin"),
    ("utf8mb3", "utf8mb3_unicode_ci"),
    ("latin1", "latin1_swedish_ci"),
    ("utf16", "utf16_unicode_ci"),
]
CODE = dimension({"code": "string"})


@pytest.fixture
def server(stack, master_database) -> Server:
    return Server(stack, master_database)


def words() -> list[str]:
    """Codes as people make them: cases, signs, digits and accents mixed."""
    heads = ["ale", "Bun", "cod", "Öl", "éclair", "Zwieback", "_x", "a-b", "a b", "A.b", "9to5"]
    return [f"{head}{sign}{number}" for head in heads for sign in ("", "-", "/") for number in range(0, 120, 5)]


@pytest.mark.parametrize(("charset", "collation"), COLLATIONS)
def test_most_keys_bisect_into_the_page_that_holds_them(server, charset, collation):
    server.table(f"code VARCHAR(40) CHARACTER SET {charset} COLLATE {collation}", [[word] for word in words()])
    master = server.master(CODE)
    borders = master.borders(20)
    pages = [master.page(first, until, 99)["key"] for first, until in pairwise([*borders.to_pylist(), None])]
    assert sum(map(len, pages)) == len(words())
    holding = np.concatenate([np.full(len(page), number) for number, page in enumerate(pages)])
    keys = pa.concat_arrays([chunk for page in pages for chunk in page.chunks])
    chosen = np.searchsorted(master.order(borders), master.order(keys), side="right") - 1
    assert np.mean(chosen == holding) > 0.8  # a collation may put a letter with a mark elsewhere


def test_keys_of_several_columns_bisect_by_the_order_of_the_index(server):
    rows = [
        (shop, number, code) for shop in ("A", "b", "C", "d") for number in range(-20, 20) for code in (b"\xff", b"a")
    ]
    server.table("shop VARCHAR(9) COLLATE utf8mb4_general_ci, n INT, code VARBINARY(3)", rows)
    server.execute("ALTER TABLE t DROP PRIMARY KEY, ADD UNIQUE INDEX other_order (n, code, shop)")
    master = server.master(dimension({"shop": "string", "n": "int64", "code": "binary"}))
    ordered = server.execute("SELECT shop, n, code FROM t ORDER BY n, code, shop")
    shops, numbers, codes = zip(*ordered, strict=True)
    keys = pack([pa.array(shops), pa.array(numbers), pa.array(codes, pa.binary())])
    chosen = np.searchsorted(master.order(master.borders(16)), master.order(keys), side="right") - 1
    assert chosen.tolist() == [place // 16 for place in range(len(rows))]


def test_the_order_of_keys_that_no_row_can_have_is_no_error(server):
    server.table("code VARCHAR(9)", [["a"]])
    order = server.master(CODE).order(pa.array([b"\xff\xfe", b"", b"a" * 100, "é".encode() * 40], pa.binary()))
    assert len(order) == 4
    assert order.dtype.kind == "S"


def test_also_proves_which_keys_exist_wherever_they_sort(server):
    server.table(
        "code VARCHAR(20) COLLATE utf8mb4_general_ci", [[word] for word in ["a", "B", "c", "D", "é", "f ", "x"]]
    )
    master = server.master(CODE)
    asked = pa.array([b"b", b"B", "é".encode(), b"e", b"f", b"x", b"\xff", b"nowhere"], pa.binary())
    page = master.page(b"B", b"x", 2, also=asked)
    assert sorted(page["key"].to_pylist()) == sorted([b"B", b"c", "é".encode(), b"x"])
    assert master.reads.by_kind["page"].queries == 1
    nothing_more = master.page(b"B", b"x", 2, also=pa.array([b"\xff"], pa.binary()))
    assert nothing_more["key"].to_pylist() == [b"B", b"c"]
    assert master.page(b"y", None, 2, also=pa.array([b"nowhere"])).num_rows == 0


def test_also_touches_no_more_rows_than_it_returns(server):
    server.table("n INT", [[n] for n in range(3_000)])
    master = server.master(dimension({"n": "int64"}))
    master.page(0, None, 1)
    status = "SHOW SESSION STATUS LIKE 'Handler_read%'"
    before = sum(int(value) for _, value in server.sees(0, status))
    assert len(master.page(2_000, 2_500, 100, also=pa.array([5, 2_050, 2_900, 9_999]))) == 102
    # The union's own list of rows is read again, once.
    assert sum(int(value) for _, value in server.sees(0, status)) - before <= 2 * 104 + 5


def test_a_page_with_others_is_typed_like_a_page_without(server):
    server.execute(
        f"CREATE TABLE t (id INT(8) UNSIGNED ZEROFILL PRIMARY KEY, {COLUMNS}, active BIT(1), fixed CHAR(5),"
        " raw BINARY(3), price DECIMAL(9,4), share DOUBLE, since DATE)"
    )
    server.execute("INSERT INTO t VALUES (7, 1, '2026-03-29 02:30:00.25', 1, 'ab', x'00ff', -5.5, 0.1, '2026-02-28')")
    types = {
        "active": pa.bool_(),
        "fixed": pa.string(),
        "raw": pa.binary(),
        "price": pa.decimal128(18, 4),
        "share": pa.float64(),
        "since": pa.date32(),
    }
    master = server.master(dimension({"id": "int64"}, types))
    alone = master.page(None, None, 9).to_pylist()
    assert alone[0]["raw"] == b"\0\xff\0"
    assert master.page(8, None, 9, also=pa.array([7])).to_pylist() == alone
    assert master.page(None, None, 9, also=pa.array([7])).to_pylist() == alone
    assert master.scan(None, 9).rows.to_pylist() == alone
    assert master.lookup(pa.array([7])).to_pylist() == alone


@pytest.mark.parametrize("index", ["KEY (code)", "KEY (code, n)", "UNIQUE KEY (code, n)"])
def test_an_index_that_proves_nothing_still_finds_all_rows_of_a_key(server, index):
    server.execute(f"CREATE TABLE t (code VARCHAR(9), n INT, {COLUMNS}, {index})")
    server.execute("INSERT INTO t (code, n, sk) VALUES (%s, %s, %s)", [(f"K{n // 3}", n, n) for n in range(30)])
    master = server.master(CODE)
    assert (master.unique, master.indexed) == (False, True)
    keys = pa.array([b"K1", b"K2", b"nowhere"])
    assert sorted(master.lookup(keys)["surrogate_key"].to_pylist()) == [3, 4, 5, 6, 7, 8]
    assert sorted(master.page(b"K2", b"K3", 2, also=keys)["surrogate_key"].to_pylist()) == [3, 4, 5, 6, 7, 8]
    assert master.borders(2).to_pylist() == [f"K{n}".encode() for n in range(10)]


def test_borders_beyond_one_query_go_on_where_the_last_one_stopped(server, monkeypatch):
    monkeypatch.setattr("pipeline.master.mysql.master._KEYS_A_QUERY", 70)
    server.table("n INT", [[n] for n in range(500)])
    master = server.master(dimension({"n": "int64"}))
    assert master.borders(33).to_pylist() == list(range(0, 500, 33))
    assert master.borders(500).to_pylist() == [0]
    assert master.borders(1).to_pylist() == list(range(500))
    assert (master.reads.by_kind["page"].queries, master.borders(33).type) == (0, pa.int64())


def test_an_empty_table_has_no_borders(server):
    server.table("n INT", [])
    assert server.master(dimension({"n": "int64"})).borders(9).to_pylist() == []
