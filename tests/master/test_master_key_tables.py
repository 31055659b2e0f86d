"""Keys asked for as a table that the server joins with; `test_master_keys` finds all kinds of keys both ways."""

import pyarrow as pa
import pytest

from pipeline.master.mysql import keytable
from pipeline.master.mysql.literals import Part
from pipeline.master.mysql.sql import Index, Statements
from tests.kit.master_fixtures import Server, dimension, found

pytestmark = pytest.mark.mysql

CODE = dimension({"code": "string"})


@pytest.fixture
def server(stack, master_database) -> Server:
    return Server(stack, master_database)


def texts(*keys: str) -> pa.Array:
    return pa.array([key.encode() for key in keys], pa.binary())


@pytest.fixture(autouse=True)
def every_look_up_by_a_table(request, monkeypatch):
    if "server" in request.fixturenames:
        monkeypatch.setattr(keytable, "LEAST", 1)


@pytest.mark.parametrize("kind", ["VARCHAR(6)", "CHAR(6)"])
def test_a_row_whose_key_is_one_of_several_for_its_collation_comes_once(server, kind):
    server.table(f"code {kind} COLLATE utf8mb4_general_ci", [["ale"], ["Bun"], ["ca"]])
    asked = texts("ale", "ALE", "Ale ", "bun", "BUN", "Bun ", "ca", "ca", "ça", "alexandria", "Bun123456")
    answer = server.master(CODE).lookup(asked)
    assert (len(answer), found(answer)) == (2, {b"ale": 1, b"ca": 3})


def test_a_key_that_is_longer_than_the_column_is_nobodys(server):
    server.table("code VARCHAR(6) COLLATE utf8mb4_bin", [["123456"], ["12345"]])
    assert found(server.master(CODE).lookup(texts("1234567", "12345", "12345678"))) == {b"12345": 2}


@pytest.mark.parametrize("column", ["TINYINT", "INT", "BIGINT"])
def test_a_key_beyond_the_columns_range_is_not_its_last_one(server, column):
    bits = {"TINYINT": 7, "INT": 31, "BIGINT": 63}[column]
    least, most = -(1 << bits), (1 << bits) - 1
    server.table(f"n {column}", [[least], [0], [most]])
    beyond = [key for key in (least - 1, most + 1, 3 * most) if -(1 << 63) <= key < 1 << 63]
    master = server.master(dimension({"n": "int64"}))
    assert found(master.lookup(pa.array([*beyond, 0, 5], pa.int64()))) == {0: 2}
    assert found(master.lookup(pa.array([*beyond, most, least], pa.int64()))) == {most: 3, least: 1}


def test_each_key_is_one_descent_of_the_index_whatever_table_and_column_are_called(server):
    server.execute("CREATE TABLE `keys of t` (k0 VARCHAR(9) PRIMARY KEY, sk BIGINT, changed TIMESTAMP(6) NOT NULL)")
    rows = ",".join(f"('{n:09}', {n}, NOW())" for n in range(1, 3_001))
    server.execute(f"INSERT INTO `keys of t` VALUES {rows}")
    master = server.master(dimension({"k0": "string"}, table="keys of t"))
    asked = texts(*(f"{n:09}" for n in range(2_991, 3_020)))
    assert found(master.lookup(asked)) == {f"{n:09}".encode(): n for n in range(2_991, 3_001)}
    statement = master._statements().lookup([asked])
    assert "JSON_TABLE" in statement
    plan = str(server.execute(f"EXPLAIN {statement}"))
    assert "eq_ref" in plan or "Single-row index lookup" in plan  # as a table, or as newer servers of MySQL tell it


def test_a_list_is_asked_for_where_a_table_is_not_worth_it_or_cannot_be():
    part = Part("code", "string", "utf8mb4", "utf8mb4_bin", in_json="VARCHAR(9)")
    by_code = Index("PRIMARY", (part,))

    def by_table(keys: list[bytes], unique: bool = True, reads_json: bool = True) -> bool:
        statements = Statements("t", ("code",), (part,), by_code, (0,), unique, by_code, reads_json)
        return "JSON_TABLE" in statements.lookup([pa.array(keys, pa.binary())])

    many = [b"%d" % n for n in range(keytable.LEAST)]
    assert by_table(many)
    assert not by_table(many[1:])
    assert not by_table(many, unique=False)
    assert not by_table(many, reads_json=False)
    for care in (b'"', b"\\", b"'", b"\n", b"\0"):
        assert not by_table([*many, b"a" + care])
