"""Keys are equal when their bytes are, on a real server with opinions of its own."""

from decimal import Decimal
from itertools import pairwise

import pyarrow as pa
import pytest

from pipeline.keys import pack
from pipeline.master.mysql import keytable
from tests.kit.master_fixtures import Server, dimension, every_key, found

pytestmark = pytest.mark.mysql

COLLATIONS = [
    ("utf8mb4", "utf8mb4_general_ci"),
    ("utf8mb4", "utf8mb4_unicode_ci"),
    ("utf8mb4", "utf8mb4_bin"),
    ("utf8mb3", "utf8mb3_unicode_ci"),
    ("latin1", "latin1_german1_ci"),
    ("utf16", "utf16_unicode_ci"),
]
NASTY = ["", "'", '"', "\\", "\\'", "a\0b", "a\nb\r\x1a", "%s %", "`", "--", "x'41'", "é", "日本", "😀", "k" * 200]


@pytest.fixture(params=[1, 1 << 30], ids=["as a table", "as a list"], autouse=True)
def how_keys_are_asked_for(request, monkeypatch):
    """Keys come to the server as a table from so many on."""
    monkeypatch.setattr(keytable, "LEAST", request.param)


@pytest.fixture
def server(stack, master_database) -> Server:
    return Server(stack, master_database)


def binary(*keys: str | bytes) -> pa.Array:
    return pa.array([key.encode() if isinstance(key, str) else key for key in keys], pa.binary())


@pytest.mark.parametrize(("charset", "collation"), COLLATIONS)
def test_a_key_is_found_only_byte_for_byte_whatever_the_collation(server, charset, collation):
    server.table(f"code VARCHAR(20) CHARACTER SET {charset} COLLATE {collation}", [["ale"], ["BUN"], ["café"], ["d "]])
    master = server.master(dimension({"code": "string"}))
    look_alikes = ["ALE", "ale ", " ale", "Bun", "cafe", "cafe\u0301", "CAFÉ", "d", "日", "😀"]
    asked = binary("ale", "BUN", "café", "d ", *look_alikes)
    assert found(master.lookup(asked)) == {b"ale": 1, b"BUN": 2, "café".encode(): 3, b"d ": 4}


@pytest.mark.parametrize(("charset", "collation"), COLLATIONS)
def test_pages_show_every_row_once_in_the_servers_order(server, charset, collation):
    words = [[f"{letter}{tail}"] for letter in "aBcÖZ_-" for tail in ("", " x", "1", "10", "9", "é")]
    server.table(f"code VARCHAR(20) CHARACTER SET {charset} COLLATE {collation}", words)
    master = server.master(dimension({"code": "string"}))
    ordered = [code.encode() for (code,) in server.execute("SELECT code FROM t ORDER BY code")]
    assert len(ordered) == len(words)
    for rows in (1, 7, 1000):
        seen = []
        borders = [*master.borders(rows).to_pylist(), None]
        assert borders[:-1] == ordered[::rows]
        for first, until in pairwise(borders):
            seen += master.page(first, until, rows)["key"].to_pylist()
        assert seen == ordered == every_key(master, rows)
        assert master.page(ordered[20], None, rows)["key"].to_pylist() == ordered[20 : 20 + rows]


@pytest.mark.parametrize("columns", [["u"], ["u", "code"]])
def test_an_integer_without_a_sign_is_read_and_ordered_beyond_the_largest_that_has_one(server, columns):
    numbers = [0, 1, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 1]
    ddl = {"u": "u BIGINT UNSIGNED", "code": "code VARCHAR(9)"}
    server.table(", ".join(ddl[column] for column in columns), [[u, "x"][: len(columns)] for u in numbers])
    types = {"u": "uint64", "code": "string"}
    master = server.master(dimension({column: types[column] for column in columns}))
    assert master.verify() == []
    rest = [pa.array(["x"] * len(numbers))] * (len(columns) - 1)
    keys = pack([pa.array([Decimal(u) for u in numbers], pa.decimal128(20, 0)), *rest])
    assert found(master.lookup(keys)) == {key: place for place, key in enumerate(keys.to_pylist(), start=1)}
    assert master.borders(2).to_pylist() == keys.to_pylist()[::2]
    assert every_key(master, 2) == keys.to_pylist()
    order = master.order(keys)
    assert all(one < other for one, other in pairwise(order))
    assert master.page(keys[2].as_py(), keys[5].as_py(), 9)["key"].to_pylist() == keys.to_pylist()[2:5]
    scanned, position = [], None
    for _ in numbers:
        scan = master.scan(position, 1)
        scanned += scan.rows["key"].to_pylist()
        position = scan.position
    assert scanned == keys.to_pylist()


def test_a_page_at_a_missing_key_starts_behind_its_place(server):
    server.table("n INT", [[10], [20], [30]])
    master = server.master(dimension({"n": "int64"}))
    assert master.page(15, None, 2)["key"].to_pylist() == [20, 30]
    assert master.page(31, None, 2).num_rows == 0


@pytest.mark.parametrize("mode", ["", "NO_BACKSLASH_ESCAPES,ANSI_QUOTES,PAD_CHAR_TO_FULL_LENGTH"])
def test_no_character_in_a_key_changes_the_statement(server, mode):
    server.table("code VARCHAR(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", [[key] for key in NASTY])
    [(before,)] = server.execute("SELECT @@GLOBAL.sql_mode")
    server.execute(f"SET GLOBAL sql_mode = '{mode}'")
    try:
        master = server.master(dimension({"code": "string"}))
        answer = found(master.lookup(binary(*NASTY, "no' OR '1'='1", "k" * 201, b"\xff", b"\xed\xa0\x80")))
    finally:
        server.execute(f"SET GLOBAL sql_mode = '{before}'")
    assert answer == {key.encode(): number for number, key in enumerate(NASTY, start=1)}


def test_fixed_width_text_is_found_without_its_padding(server):
    server.table("code CHAR(5)", [["ab"], ["abcde"]])
    assert found(server.master(dimension({"code": "string"})).lookup(binary("ab", "ab   ", "abcde"))) == {
        b"ab": 1,
        b"abcde": 2,
    }


@pytest.mark.parametrize("width", ["VARBINARY(8)", "BINARY(4)"])
def test_binary_keys_are_compared_with_their_zeros(server, width):
    keys = [b"\0\0\0\0", b"\0\0\0a", b"\xff\xfe'\\", b"abcd"]
    server.table(f"code {width}", [[key] for key in keys])
    master = server.master(dimension({"code": "binary"}))
    asked = binary(*keys, b"", b"\0", b"\0\0\0\0\0", b"ABCD", b"\xff\xfe")
    assert found(master.lookup(asked)) == {key: number for number, key in enumerate(keys, start=1)}
    assert sorted(master.page(None, None, 10)["key"].to_pylist()) == sorted(keys)


@pytest.mark.parametrize(
    ("column", "keys"),
    [
        ("BIGINT", [-(2**63), -1, 0, 2**63 - 1]),
        ("BIGINT UNSIGNED", [0, 1, 2**63 - 1]),
        ("TINYINT", [-128, 0, 127]),
        ("INT(8) UNSIGNED ZEROFILL", [0, 42, 2**32 - 1]),
    ],
)
def test_integer_keys_are_found_up_to_the_extremes(server, column, keys):
    server.table(f"n {column}", [[key] for key in keys])
    master = server.master(dimension({"n": "int64"}))
    asked = pa.array(sorted({*keys, -(2**63), -7, 5, 300, 2**40, 2**63 - 1}), pa.int64())
    assert found(master.lookup(asked)) == {key: number for number, key in enumerate(keys, start=1)}
    assert master.page(None, None, 10)["key"].to_pylist() == sorted(keys)


def test_keys_of_several_columns_are_found_and_paged_by_all_of_them(server):
    keys = [(shop, number, code) for shop in ("A", "b", "C") for number in (-1, 2) for code in (b"", b"\0", b"z")]
    server.table("shop VARCHAR(9) COLLATE utf8mb4_general_ci, n INT, code VARBINARY(3)", keys)
    server.execute("ALTER TABLE t DROP PRIMARY KEY, ADD UNIQUE INDEX other_order (code, shop, n)")
    master = server.master(dimension({"shop": "string", "n": "int64", "code": "binary"}))
    near = [("a", 2, b"z"), ("B", -1, b""), ("b", 2, b"y"), ("b", 3, b"z"), ("bz", 2, b"")]
    wanted = dict(zip(packed(keys).to_pylist(), range(1, 1 + len(keys)), strict=True))
    assert found(master.lookup(packed(keys + near))) == wanted
    borders = [*master.borders(4).to_pylist(), None]
    seen = [key for first, until in pairwise(borders) for key in master.page(first, until, 4)["key"].to_pylist()]
    ordered = server.execute("SELECT shop, n, code FROM t ORDER BY code, shop, n")
    assert seen == packed(ordered).to_pylist()
    assert master.page(seen[5], None, 4)["key"].to_pylist() == seen[5:9]


def packed(keys) -> pa.Array:
    shops, numbers, codes = zip(*keys, strict=True)
    return pack([pa.array(shops), pa.array(numbers), pa.array(codes, pa.binary())])


def test_rows_without_a_natural_key_are_never_seen(server):
    server.table("code VARCHAR(9), n INT", [["a", 1], [None, 1], ["a", None], [None, None]], index="UNIQUE INDEX")
    master = server.master(dimension({"code": "string", "n": "int64"}))
    assert master.page(None, None, 10)["surrogate_key"].to_pylist() == [1]


def test_no_keys_ask_nothing(server):
    server.table("n INT", [[1]])
    master = server.master(dimension({"n": "int64"}))
    assert master.lookup(pa.array([], pa.int64())).schema == master.schema
    assert not server.opened
    assert not master.reads.by_kind["lookup"].queries
