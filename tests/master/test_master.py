"""What the master port promises beyond keys: types, load on the server, freshness, sessions."""

import asyncio
import datetime
import os
from decimal import Decimal

import pyarrow as pa
import pytest

from pipeline.keys import pack
from tests.kit.master_fixtures import COLUMNS, Server, dimension, found

pytestmark = pytest.mark.mysql


@pytest.fixture
def server(stack, master_database) -> Server:
    return Server(stack, master_database)


@pytest.fixture
def thousands(server) -> Server:
    """A table of 10 000 numbers and their texts, its key both columns or one."""
    server.execute(
        f"CREATE TABLE t (code VARCHAR(20) CHARACTER SET latin1, n BIGINT, {COLUMNS},"
        " PRIMARY KEY (code, n), UNIQUE INDEX by_code (code), UNIQUE INDEX by_n (n))"
    )
    ten = " UNION ALL ".join(f"SELECT {digit} AS d" for digit in range(10))
    digits = ", ".join(f"({ten}) AS d{place}" for place in range(4))
    number = "d0.d + 10 * d1.d + 100 * d2.d + 1000 * d3.d"
    server.execute(f"INSERT INTO t (code, n, sk) SELECT CONCAT('K', {number}), {number}, {number} + 1 FROM {digits}")
    return server


KEYS = {
    "a text": (dimension({"code": "string"}), lambda numbers: [pa.array([f"K{n}" for n in numbers])]),
    "an integer": (dimension({"n": "int64"}), lambda numbers: [pa.array(numbers)]),
    "two columns": (
        dimension({"code": "string", "n": "int64"}),
        lambda numbers: [pa.array([f"K{n}" for n in numbers]), pa.array(numbers)],
    ),
}


def rows_touched(server: Server) -> int:
    """Rows the server read for the latest master's session, by its own count."""
    status = server.sees(-1, "SHOW SESSION STATUS LIKE 'Handler_read%'")
    return sum(int(value) for name, value in status if name.lower() != b"handler_read_rnd_deleted")


@pytest.mark.parametrize("key", KEYS)
def test_a_lookup_is_one_query_that_touches_only_the_rows_it_asks_for(thousands, key):
    contract, columns = KEYS[key]
    master = thousands.master(contract)
    master.verify()
    numbers = list(range(0, 8_000, 2))
    before = rows_touched(thousands)
    answer = master.lookup(pack(columns([*numbers, 99_999])))
    assert sorted(answer["surrogate_key"].to_pylist()) == [n + 1 for n in numbers]
    assert rows_touched(thousands) - before <= 2 * len(numbers) + 10
    assert master.reads.by_kind["lookup"].queries == 1
    assert master.reads.by_kind["lookup"].rows == len(numbers)
    assert master.reads.by_kind["lookup"].bytes == answer.nbytes


def test_a_key_the_columns_character_set_lacks_does_not_cost_a_scan(thousands):
    master = thousands.master(dimension({"code": "string"}))
    master.verify()
    before = rows_touched(thousands)
    assert found(master.lookup(pack([pa.array(["K7", "日本", "😀", "K😀"])]))) == {b"K7": 8}
    assert rows_touched(thousands) - before < 20


@pytest.mark.parametrize("key", KEYS)
def test_a_page_touches_no_more_rows_than_it_returns(thousands, key):
    contract, columns = KEYS[key]
    master = thousands.master(contract)
    master.verify()
    [late] = pack(columns([9_000])).to_pylist()
    before = rows_touched(thousands)
    assert len(master.page(late, None, 500)) == 500
    assert rows_touched(thousands) - before <= 510


def test_every_type_of_the_contract_is_read_exactly(server):
    types = {
        "number": pa.int32(),
        "price": pa.decimal128(18, 2),
        "share": pa.float64(),
        "active": pa.bool_(),
        "since": pa.date32(),
        "seen": pa.timestamp("us", tz="UTC"),
        "label": pa.string(),
        "raw": pa.binary(),
    }
    server.execute(
        f"CREATE TABLE t (id INT PRIMARY KEY, {COLUMNS}, number INT, price DECIMAL(18,2), share DOUBLE, active TINYINT,"
        " since DATE, seen DATETIME(3), label VARCHAR(20) CHARACTER SET latin1, raw BLOB)"
    )
    server.execute(
        "INSERT INTO t VALUES (1, 10, '2026-03-29 02:30:00.000001', -5, 9999999999999999.99, 0.1, 1, '2026-02-28',"
        " '1999-12-31 23:59:59.999', 'é€', x'00ff'), (2, 20, '1970-01-01 00:00:01', NULL, NULL, NULL, NULL, NULL, NULL,"
        " NULL, NULL)"
    )
    answer = server.master(dimension({"id": "int64"}, types)).page(None, None, 9).to_pylist()
    utc = datetime.timezone.utc
    assert answer[0] == {
        "key": 1,
        "surrogate_key": 10,
        "updated_at": datetime.datetime(2026, 3, 29, 2, 30, 0, 1, utc),
        "number": -5,
        "price": Decimal("9999999999999999.99"),
        "share": 0.1,
        "active": True,
        "since": datetime.date(2026, 2, 28),
        "seen": datetime.datetime(1999, 12, 31, 23, 59, 59, 999000, utc),
        "label": "é€",
        "raw": b"\0\xff",
    }
    assert {name: answer[1][name] for name in types} == dict.fromkeys(types)


def test_a_change_is_seen_by_the_next_read_of_the_same_session(server):
    server.table("n INT", [[1]])
    master = server.master(dimension({"n": "int64"}))
    assert found(master.lookup(pa.array([1, 2]))) == {1: 1}
    server.execute("INSERT INTO t (n, sk) VALUES (2, 7)")
    server.execute("UPDATE t SET sk = 5 WHERE n = 1")
    assert found(master.lookup(pa.array([1, 2]))) == {1: 5, 2: 7}
    assert len(server.opened) == 1


def test_the_session_cannot_write(server):
    server.table("n INT", [[1]])
    server.master(dimension({"n": "int64"})).verify()
    with pytest.raises(Exception, match="READ ONLY"):
        server.sees(0, "DELETE FROM t")


def test_a_statement_too_long_for_the_server_is_cut(server):
    codes = [f"{n:0100d}" for n in range(2_000)]
    server.table("code VARCHAR(100)", [[code] for code in codes])
    [(before,)] = server.execute("SELECT @@GLOBAL.max_allowed_packet")
    server.execute("SET GLOBAL max_allowed_packet = 65536")
    try:
        master = server.master(dimension({"code": "string"}))
        assert len(master.lookup(pack([pa.array(codes)]))) == 2_000
        assert master.reads.by_kind["lookup"].queries == 4
    finally:
        server.execute(f"SET GLOBAL max_allowed_packet = {before}")


def test_statistics_count_the_rows_and_weigh_them(server):
    server.table("n INT", [[n] for n in range(3_000)])
    statistics = server.master(dimension({"n": "int64"})).statistics()
    assert statistics.rows == 3_000
    assert 24 <= statistics.row_bytes < 26
    server.execute("DELETE FROM t")
    empty = server.master(dimension({"n": "int64"})).statistics()
    assert (empty.rows, empty.row_bytes) == (0, 24)


def test_a_master_can_be_read_while_an_event_loop_runs_in_the_thread(server):
    server.table("n INT", [[1]])

    async def in_a_notebook() -> int:
        return len(server.master(dimension({"n": "int64"})).page(None, None, 9))

    assert asyncio.run(in_a_notebook()) == 1


def test_a_forked_process_opens_a_session_of_its_own(server):
    server.table("n INT", [[1]])
    master = server.master(dimension({"n": "int64"}))
    assert len(master.page(None, None, 9)) == 1
    [(parents,)] = server.sees(0, "SELECT CONNECTION_ID()")
    if (child := os.fork()) == 0:
        status = 1
        try:
            alike = len(master.page(None, None, 9)) == 1
            [(childs,)] = server.sees(-1, "SELECT CONNECTION_ID()")
            master.close()
            status = 0 if alike and childs != parents else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(master.page(None, None, 9)) == 1
    assert server.sees(0, "SELECT CONNECTION_ID()") == [(parents,)]
