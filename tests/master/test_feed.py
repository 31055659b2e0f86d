"""The binary log of a real server, followed: each key that changes is told, whatever the table and the statement."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pymysql
import pytest

from pipeline.config.measures import Secret
from pipeline.config.settings import MasterData
from pipeline.errors import FeedRefused
from pipeline.keys import pack
from pipeline.laptop.stack.database import Database
from pipeline.laptop.stack.stack import start_on_free_ports
from pipeline.master.feed import Changes
from pipeline.master.mysql.binlog import server as log_server
from pipeline.master.open import open_feed
from tests.kit.master_fixtures import COLUMNS, Server, dimension
from tests.kit.mysql_server import asked_for

pytestmark = pytest.mark.mysql

ALL = "all of it"


@pytest.fixture
def server(stack, master_database) -> Server:
    server = Server(stack, master_database)
    server.execute("CREATE TABLE marker (n BIGINT PRIMARY KEY)")
    stack.database.allow_reading(["t", "marker"], master_database)
    return server


class Followed:
    """A feed, and what it has told up to a row that is written to say: up to here."""

    def __init__(self, server: Server, key: dict[str, str], place: str = "", first: int = 1, **settings: Any) -> None:
        self._server, self._numbers = server, itertools.count(first)
        contracts = {
            "thing": dimension(key),
            "marker": replace(dimension({"n": "int64"}, table="marker"), name="marker"),
        }
        account = server.stack.database.accounts.reader
        told = replace(server.settings, **{"user": account.user, "password": Secret(account.password), **settings})
        self.pieces: Iterator[Changes] = open_feed(told, contracts).follow(place)
        self.place = ""
        if not place:
            first = next(self.pieces)
            assert first.all_of == {"thing", "marker"}
            self.place = first.place

    def told(self) -> set[Any]:
        """Keys of things, or ALL."""
        number = next(self._numbers)
        self._server.execute(f"INSERT INTO marker VALUES ({number})")
        found: set[Any] = set()
        for piece in self.pieces:
            self.place, self.until = piece.place, piece.told_until
            found |= set(piece.keys.get("thing", pa.array([])).to_pylist())
            found |= {ALL} if "thing" in piece.all_of else set()
            if number in piece.keys.get("marker", pa.array([])).to_pylist() or "marker" in piece.all_of:
                return found
        raise AssertionError("the feed ended")

    def close(self) -> None:
        self.pieces.close()  # type: ignore[attr-defined]


def test_rows_that_come_change_and_go_are_told_by_their_keys_and_what_is_taken_back_is_not(server):
    server.table("code VARCHAR(20)", [["ale"], ["bun"], ["cod"], ["dip"]])
    feed = Followed(server, {"code": "string"})
    assert feed.told() == set()
    server.execute("INSERT INTO t (code, sk) VALUES ('elk', 9), ('fig', 10)")
    assert feed.told() == {b"elk", b"fig"}
    server.execute("UPDATE t SET sk = sk + 100 WHERE code IN ('ale', 'bun')")
    server.execute("DELETE FROM t WHERE code = 'cod'")
    assert feed.told() == {b"ale", b"bun", b"cod"}
    server.execute("UPDATE t SET code = 'gnu' WHERE code = 'dip'")
    assert feed.told() == {b"dip", b"gnu"}
    with server.stack.database.connect("admin", server.name) as connection, connection.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("UPDATE t SET sk = 0")
        cursor.execute("ROLLBACK")
    assert feed.told() == set()
    feed.close()


KEYS = [
    ("a", "INT UNSIGNED", "uint64", [0, 7, 2**32 - 1]),
    ("a", "BIGINT UNSIGNED", "uint64", [0, 2**63, 2**64 - 1]),
    ("a", "BIGINT", "int64", [-(2**63), -1, 2**63 - 1]),
    ("a", "MEDIUMINT", "int64", [-(2**23), -1, 5]),
    ("a", "TINYINT UNSIGNED", "int64", [0, 200, 255]),
    ("a", "SMALLINT", "int64", [-300, 0, 300]),
    ("a", "VARCHAR(300) CHARACTER SET utf8mb4", "string", ["", "naïve", "日本" * 50]),
    ("a", "CHAR(200) CHARACTER SET utf8mb4", "string", ["x", "naïve", "日本"]),
    ("a", "VARCHAR(20) CHARACTER SET latin1", "string", ["plain", "naïve", "€5"]),
    ("a", "CHAR(4) CHARACTER SET ucs2", "string", ["ab", "éé", "日本"]),
    ("a", "BINARY(4)", "binary", [b"a\0\0\0", b"\0\0\0\0", b"abcd"]),
    ("a", "VARBINARY(4)", "binary", [b"a", b"\0", b"ab\0"]),
]


@pytest.mark.parametrize(("name", "ddl", "kind", "values"), KEYS, ids=[ddl for _, ddl, *_ in KEYS])
def test_a_key_of_any_type_is_told_as_the_sales_have_it(server, name, ddl, kind, values):
    server.table(f"{name} {ddl} NOT NULL", [])
    feed = Followed(server, {name: kind})
    server.execute(f"INSERT INTO t ({name}, sk) VALUES (%s, 1)", [[value] for value in values])
    types = {"int64": pa.int64(), "uint64": pa.uint64(), "string": pa.string(), "binary": pa.binary()}
    assert feed.told() == set(pack([pa.array(values, types[kind])]).to_pylist())
    feed.close()


def test_of_any_other_column_only_the_width_has_to_be_known(server):
    """All types of columns, with and without a value, before and between the two columns of the key."""
    others = (
        "DECIMAL(30,11)", "DECIMAL(9,2)", "FLOAT", "DOUBLE", "BIT(13)", "BIT(1)", "DATE", "TIME(3)", "DATETIME(6)",
        "DATETIME", "TIMESTAMP(1) NULL", "YEAR", "ENUM('a','b')", "SET('x','y','z')", "JSON", "BLOB", "TINYTEXT",
        "LONGBLOB", "GEOMETRY", "TINYINT", "MEDIUMINT", "CHAR(255) CHARACTER SET utf8mb4", "VARCHAR(4000)", "BINARY(9)",
    )  # fmt: skip
    values = (
        "'12345678901234567.123'", "-1.5", "1.5", "2.5", "b'1010101010101'", "1", "'2026-11-19'", "'-12:30:01.5'",
        "'2026-11-19 12:00:00.123456'", "'2026-11-19 12:00:00'", "'2026-11-19 12:00:00.1'", "2026", "'b'", "'x,z'",
        "'{\"a\": [1, 2]}'", "x'00ff'", "'text'", "REPEAT('b', 70000)", "ST_GeomFromText('POINT(1 2)')", "-3", "-70000",
        "'日本'", "REPEAT('v', 3000)", "x'01'",
    )  # fmt: skip
    columns = [f"c{number} {kind}" for number, kind in enumerate(others)]
    server.execute(
        f"CREATE TABLE t ({', '.join(columns[:9])}, n INT, {', '.join(columns[9:])}, code VARCHAR(9), {COLUMNS})"
    )
    feed = Followed(server, {"code": "string", "n": "int64"})
    choose, sold = random.Random(5), []
    for number in range(60):
        given = [value if choose.random() < 0.7 else "NULL" for value in values]
        sold.append((f"k{number}", number))
        names = ", ".join(["n", "code", *(f"c{place}" for place in range(len(others)))])
        server.execute(f"INSERT INTO t ({names}) VALUES ({number}, 'k{number}', {', '.join(given)})")
    codes, numbers = (pa.array(column) for column in zip(*sold, strict=True))
    expected = set(pack([codes, numbers]).to_pylist())
    assert feed.told() == expected
    server.execute("UPDATE t SET c0 = 1, c15 = NULL, c17 = 'x' WHERE n < 30")
    assert feed.told() == set(pack([codes[:30], numbers[:30]]).to_pylist())
    server.execute("DELETE FROM t")
    assert feed.told() == expected
    feed.close()


def test_with_a_minimal_row_image_keys_are_told_where_the_log_has_them_and_all_where_not(server):
    server.execute(f"CREATE TABLE t (id BIGINT PRIMARY KEY, code VARCHAR(20), {COLUMNS}, UNIQUE INDEX (code))")
    feed, minimal = Followed(server, {"code": "string"}), "SET SESSION binlog_row_image = MINIMAL"
    with server.stack.database.connect("admin", server.name) as connection, connection.cursor() as cursor:
        cursor.execute(minimal)
        cursor.execute("INSERT INTO t (id, code, sk) VALUES (1, 'ale', 1), (2, 'bun', 2)")
        assert feed.told() == {b"ale", b"bun"}
        cursor.execute("UPDATE t SET sk = 3 WHERE id = 1")
        assert feed.told() == {ALL}
        cursor.execute("DELETE FROM t WHERE id = 2")
        assert feed.told() == {ALL}
    feed.close()


@pytest.mark.parametrize(
    "statement",
    ["TRUNCATE TABLE t", "RENAME TABLE t TO u", "ALTER TABLE t DROP COLUMN filler", "DROP TABLE t"],
)
def test_a_table_that_is_altered_emptied_or_gone_is_told_as_all_of_it(server, statement):
    server.execute(f"CREATE TABLE t (code VARCHAR(20) PRIMARY KEY, filler INT, {COLUMNS})")
    server.execute("INSERT INTO t (code) VALUES ('ale'), ('bun')")
    feed = Followed(server, {"code": "string"})
    server.execute(statement)
    assert feed.told() == {ALL}
    feed.close()


def test_of_a_table_with_a_type_that_is_not_known_every_change_is_told_as_all_of_it(server, monkeypatch):
    """As of a server that is younger than this reader."""
    monkeypatch.setattr("pipeline.master.mysql.binlog.tables._DECIMAL", 0)
    server.execute(f"CREATE TABLE t (code VARCHAR(20) PRIMARY KEY, price DECIMAL(9,2), {COLUMNS})")
    feed = Followed(server, {"code": "string"})
    for number in range(3):
        server.execute(f"INSERT INTO t (code, price) VALUES ('k{number}', 1.5)")
        assert feed.told() == {ALL}
    feed.close()


def test_a_key_that_cannot_be_read_is_told_as_all_of_the_table(server, monkeypatch):
    monkeypatch.setattr("pipeline.master.mysql.binlog.charsets._CODECS", {"latin1": "no such codec"})
    server.table("code VARCHAR(20) CHARACTER SET latin1", [["ale"]])
    feed = Followed(server, {"code": "string"})
    for number in range(2):
        server.execute(f"UPDATE t SET sk = {number + 5}")
        assert feed.told() == {ALL}
    feed.close()


def test_rows_of_several_tables_in_one_statement_are_told_however_many_tables_were_seen(server, monkeypatch):
    monkeypatch.setattr("pipeline.master.mysql.binlog.follow._MOST_TABLES", 1)
    server.table("code VARCHAR(20)", [["ale"]])
    server.execute("CREATE TABLE other (n INT)")
    server.execute("INSERT INTO other VALUES (1)")
    feed = Followed(server, {"code": "string"})
    server.execute("UPDATE t, other SET t.sk = 7, other.n = 2")
    assert feed.told() == {b"ale"}
    feed.close()


def test_after_a_column_was_added_before_the_key_its_rows_are_read_as_they_are_now(server):
    server.table("code VARCHAR(20)", [["ale"]])
    feed = Followed(server, {"code": "string"})
    server.execute("ALTER TABLE t ADD COLUMN size DECIMAL(9,3) FIRST")
    assert feed.told() == {ALL}
    server.execute("UPDATE t SET size = 2.5")
    assert feed.told() == {b"ale"}
    feed.close()


def test_a_change_that_the_log_has_as_a_statement_is_told_as_all_of_the_table(server):
    server.table("code VARCHAR(20)", [["ale"], ["bun"]])
    feed = Followed(server, {"code": "string"})
    with server.stack.database.connect("admin", server.name) as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION binlog_format = STATEMENT")
        cursor.execute("UPDATE t SET sk = 5 WHERE code = 'ale'")
    assert feed.told() == {ALL}
    feed.close()


def test_a_prepared_transaction_is_told_again_when_it_is_committed(server):
    """Its rows are in the log when it is prepared, and seen by others only later."""
    server.table("code VARCHAR(20)", [["ale"]])
    feed = Followed(server, {"code": "string"})
    with server.stack.database.connect("admin", server.name) as connection, connection.cursor() as cursor:
        for statement in ("XA START 'x'", "UPDATE t SET sk = 5", "XA END 'x'", "XA PREPARE 'x'"):
            cursor.execute(statement)
        feed.told()
        cursor.execute("XA COMMIT 'x'")
    assert feed.told()  # MariaDB's log has the rows here
    feed.close()


def test_compressed_transactions_are_read_too(server):
    server.table("code VARCHAR(20)", [[f"k{n}"] for n in range(500)])
    feed = Followed(server, {"code": "string"})
    with server.stack.database.connect("admin", server.name) as connection, connection.cursor() as cursor:
        if server.stack.database.kind == "mysql":
            cursor.execute("SET SESSION binlog_transaction_compression = ON")
            expected: set[Any] = {f"k{n}".encode() for n in range(500)}
        else:
            cursor.execute("SET GLOBAL log_bin_compress = ON, GLOBAL log_bin_compress_min_len = 10")
            expected = {ALL}
        try:
            cursor.execute("UPDATE t SET sk = sk + 1")
            assert feed.told() == expected
        finally:
            if server.stack.database.kind != "mysql":
                cursor.execute("SET GLOBAL log_bin_compress = OFF")
    feed.close()


def test_many_rows_at_once_are_told_as_all_of_the_table_in_bounded_memory(server, monkeypatch):
    monkeypatch.setattr("pipeline.master.mysql.binlog.follow._MOST_KEYS", 300)
    server.table("n BIGINT", [[n] for n in range(1_000)])
    feed = Followed(server, {"n": "int64"})
    server.execute("UPDATE t SET sk = 0")
    assert feed.told() == {ALL}
    server.execute("UPDATE t SET sk = 1 WHERE n < 100")
    assert feed.told() == set(range(100))
    feed.close()


def test_a_feed_goes_on_behind_the_place_it_was_told_last(server):
    server.table("n BIGINT", [[n] for n in range(9)])
    feed = Followed(server, {"n": "int64"})
    server.execute("UPDATE t SET sk = 0 WHERE n = 3")
    assert feed.told() == {3}
    feed.close()
    server.execute("UPDATE t SET sk = 0 WHERE n = 4")
    server.execute("FLUSH LOGS")
    server.execute("UPDATE t SET sk = 0 WHERE n = 5")
    again = Followed(server, {"n": "int64"}, feed.place, first=100)
    assert again.told() == {4, 5}
    again.close()


@pytest.mark.parametrize("where", ["a file that is gone", "another server"])
def test_a_place_that_the_server_does_not_have_means_that_all_may_have_changed(server, where):
    server.table("n BIGINT", [[1]])
    feed = Followed(server, {"n": "int64"})
    place = feed.place.replace("changes.", "changes.9") if where == "a file that is gone" else f"x{feed.place}"
    again = Followed(server, {"n": "int64"}, place, first=100)
    assert again.told() == {ALL}
    server.execute("UPDATE t SET sk = 0")
    assert again.told() == {1}


def test_a_connection_that_the_server_ends_is_an_error_and_no_silence(server):
    server.table("n BIGINT", [[1]])
    feed = Followed(server, {"n": "int64"})
    feed.told()
    for session in server.execute("SELECT ID FROM information_schema.PROCESSLIST WHERE COMMAND LIKE 'Binlog Dump%'"):
        server.execute(f"KILL {session[0]}")
    with pytest.raises((OSError, pymysql.MySQLError)):
        feed.told()


def test_an_account_without_the_right_is_refused_with_the_grant_it_needs(server):
    account = server.stack.database.accounts.owner
    with pytest.raises(FeedRefused, match="GRANT REPLICATION SLAVE, REPLICATION CLIENT"):
        Followed(server, {"n": "int64"}, user=account.user, password=Secret(account.password))


def test_a_server_without_a_log_is_refused(tmp_path):
    class Silent(Database):
        logs_changes = False

    database = Silent(tmp_path, supervised=True, program=asked_for)
    start_on_free_ports(database)
    try:
        settings = replace(Server(type("Stack", (), {"database": database}), "master").settings)  # type: ignore[arg-type]
        with pytest.raises(FeedRefused, match="writes no binary log"):
            next(open_feed(settings, {"thing": dimension({"n": "int64"})}).follow())
    finally:
        database.stop()


def test_what_is_told_is_all_that_was_logged_up_to_the_last_change_or_till_now_where_the_log_is_still(server):
    server.table("code VARCHAR(20)", [["ale"]])
    feed = Followed(server, {"code": "string"})
    began = time.time()
    feed.told()
    assert feed.until.keys() == {"thing", "marker"}
    assert int(began) <= feed.until["thing"] <= time.time()
    still = next(piece for piece in feed.pieces if piece.told_until["thing"] > began)  # a heartbeat came
    assert still.told_until["thing"] <= time.time()
    feed.close()


def test_of_a_table_whose_keys_a_foreign_key_may_change_it_is_not_said_that_all_is_told(server):
    server.execute("CREATE TABLE brand (code VARCHAR(20) PRIMARY KEY)")
    server.execute(
        f"CREATE TABLE t (code VARCHAR(20), {COLUMNS}, PRIMARY KEY (code), FOREIGN KEY (code) REFERENCES brand (code) "
        "ON UPDATE CASCADE)"
    )
    feed = Followed(server, {"code": "string"})
    feed.told()
    assert feed.until.keys() == {"marker"}
    server.execute("ALTER TABLE t DROP FOREIGN KEY t_ibfk_1")
    assert feed.told() == {ALL}
    feed.told()
    assert feed.until.keys() == {"thing", "marker"}
    feed.close()


def test_who_may_read_only_some_columns_hears_of_changes_and_not_that_all_is_told(server):
    server.table("code VARCHAR(20)", [["ale"]])
    server.execute("CREATE USER 'narrow'@'%' IDENTIFIED BY 'narrow'")
    server.execute("GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO 'narrow'@'%'")
    server.execute("GRANT SELECT (code, sk, changed) ON t TO 'narrow'@'%'")
    server.execute("GRANT SELECT ON marker TO 'narrow'@'%'")
    try:
        feed = Followed(server, {"code": "string"}, user="narrow", password=Secret("narrow"))
        server.execute("INSERT INTO t (code, sk) VALUES ('bun', 2)")
        assert feed.told() == {b"bun"}
        assert feed.until.keys() >= {"marker"}
        feed.close()
    finally:
        server.execute("DROP USER 'narrow'@'%'")


STANDS_ALONE = {"log_slave_updates": "OFF", "gtid_slave_pos": "", "wsrep_on": "OFF"}  # as MariaDB says it


@pytest.mark.parametrize(
    ("said", "status", "whole"),
    [
        (STANDS_ALONE, (None, None), True),
        ({"log_replica_updates": "ON", "log_slave_updates": "ON"}, (b"", b"", b""), True),  # MySQL, as it comes
        ({"log_replica_updates": "OFF"}, (b"", b"", b""), False),
        (STANDS_ALONE | {"gtid_slave_pos": "0-7-12"}, (b"", b""), False),
        (STANDS_ALONE | {"gtid_slave_pos": "0-7-12", "log_slave_updates": "ON"}, (b"", b""), True),
        (STANDS_ALONE | {"wsrep_on": "ON"}, (b"", b""), False),
        (STANDS_ALONE, (b"other", b""), False),
        (STANDS_ALONE, (b"", b"master"), False),
    ],
)
def test_a_server_that_does_not_log_all_that_changes_on_it_is_known(said, status, whole, monkeypatch):
    def answer(driver: object, statement: str) -> list[tuple[bytes | None, ...]]:
        if "VARIABLES" in statement:
            return [(name.encode(), value.encode()) for name, value in said.items()]
        return [(b"changes.000001", b"4", *status)]

    monkeypatch.setattr(log_server, "ask", answer)
    assert log_server.LogServer(MasterData()).logs_all(None) is whole
