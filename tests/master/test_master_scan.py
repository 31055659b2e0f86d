"""A scan on the real server: without an index on the key, in pages, while others write."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from pipeline.errors import BadContract, MillraceError
from tests.kit.master_fixtures import COLUMNS, Server, dimension

pytestmark = pytest.mark.mysql

CODE = dimension({"code": "string"})


@pytest.fixture
def server(stack, master_database) -> Server:
    return Server(stack, master_database)


def cycle(master, rows: int, position: bytes | None = None) -> list[dict]:
    """All rows of one cycle, in pages, from a position around to it."""
    start, seen = position, []
    while True:
        scan = master.scan(position, rows)
        seen += scan.rows.to_pylist()
        position = scan.position
        if position is None:
            break
    while start is not None:
        scan = master.scan(position, rows, until=start)
        seen += scan.rows.to_pylist()
        position = scan.position
        if scan.reached:
            assert position == start
            break
    return seen


def numbers(rows: list[dict]) -> list[int]:
    return sorted(row["surrogate_key"] for row in rows)


# The primary key's columns, and what row n has in them; the natural key comes many times, or not at all.
SCANS = {
    "a number": ("id BIGINT UNSIGNED", lambda n: [2**64 - 1 - n]),
    "numbers and texts": (
        "shop VARCHAR(20) COLLATE utf8mb4_general_ci, day DATE, id INT",
        lambda n: [f"{'aBcÖ'[n % 4]}'\\", f"2026-01-{n % 7 + 1:02d}", n],
    ),
    "a text of another character set": ("id VARCHAR(20) CHARACTER SET latin1", lambda n: [f"{'éÅz'[n % 3]}{n}"]),
    "bytes": ("id BINARY(4)", lambda n: [bytes([n % 256, 0, 39, 92])]),
    "a moment": ("at DATETIME(6), id TINYINT", lambda n: [f"2026-03-29 02:{n % 60:02d}:00.000001", n % 100]),
    "a decimal": ("id DECIMAL(30,10)", lambda n: [f"-{n}.0000000001"]),
    "a moment of the session's zone": ("id TIMESTAMP(3)", lambda n: [f"2026-03-29 01:00:{n % 60:02d}.{n:03d}"]),
    "a time and a year": ("at TIME, id YEAR", lambda n: [f"-{n % 800}:00:01", 1990 + n % 100]),
}


@pytest.mark.parametrize("kind", SCANS)
def test_a_table_is_scanned_over_whatever_its_primary_key_is(server, kind):
    ddl, values = SCANS[kind]
    names = [part.split()[0] for part in ddl.replace("DECIMAL(30,10)", "DECIMAL").split(",")]
    server.execute(f"CREATE TABLE t ({ddl}, code VARCHAR(9), {COLUMNS}, PRIMARY KEY ({', '.join(names)}))")
    places = ", ".join(["%s"] * (len(names) + 2))
    rows = [(*values(n), None if n % 10 == 0 else f"K{n % 7}", n) for n in range(200)]
    server.execute(f"INSERT INTO t ({', '.join(names)}, code, sk) VALUES ({places})", rows)
    master = server.master(CODE)
    assert not master.indexed
    wanted = [n for n in range(200) if n % 10]
    for size in (7, 50, 200, 999):
        assert numbers(cycle(master, size)) == wanted
    middle = master.scan(master.scan(None, 60).position, 45).position
    assert numbers(cycle(master, 7, middle)) == wanted


def test_a_row_that_stays_is_seen_once_in_a_cycle_whatever_others_write(server):
    server.execute(f"CREATE TABLE t (shop INT, id INT, code VARCHAR(9), {COLUMNS}, PRIMARY KEY (shop, id))")
    stay = [(n % 5, n, f"K{n % 100}", n) for n in range(0, 3_000, 3)]
    come_and_go = [(n % 5, n, f"K{n % 100}", n) for n in range(1, 3_000, 3)]
    insert = "INSERT INTO t (shop, id, code, sk) VALUES (%s, %s, %s, %s)"
    server.execute(insert, stay + come_and_go)
    master, random, position, seen = server.master(CODE), np.random.default_rng(1), None, Counter()
    while True:
        scan = master.scan(position, int(random.integers(1, 300)))
        seen.update(scan.rows["surrogate_key"].to_pylist())
        position = scan.position
        if position is None:
            break
        server.execute(f"DELETE FROM t WHERE id % 3 = 1 AND id % 7 = {random.integers(7)}")
        new = int(random.integers(1 << 20)) * 3 + 4_002
        server.execute(insert, [(shop, new + 3 * shop, "new", -2) for shop in range(5)])
    assert {number: seen[number] for _, _, _, number in stay} == dict.fromkeys(range(0, 3_000, 3), 1)
    assert all(seen[number] <= 1 for _, _, _, number in come_and_go)


def test_a_bound_whose_row_is_gone_still_bounds(server):
    server.table("n INT", [[n] for n in range(10)])
    master = server.master(dimension({"n": "int64"}))
    bound = master.scan(None, 5).position
    server.execute("DELETE FROM t WHERE n = 4")
    scan = master.scan(None, 9, until=bound)
    assert (scan.rows["key"].to_pylist(), scan.position, scan.reached) == ([0, 1, 2, 3], bound, True)
    assert master.scan(bound, 9).rows["key"].to_pylist() == [5, 6, 7, 8, 9]


def test_a_scan_reads_each_row_once_and_counts_it(server):
    server.execute(f"CREATE TABLE t (id INT PRIMARY KEY, code VARCHAR(9), {COLUMNS})")
    server.execute(
        "INSERT INTO t (id, code, sk) VALUES (%s, %s, 1)", [(n, "a" if n % 2 else None) for n in range(1_000)]
    )
    master = server.master(CODE)
    master.scan(None, 10)
    status = "SHOW SESSION STATUS LIKE 'Handler_read%'"
    before = sum(int(value) for _, value in server.sees(0, status))
    assert len(cycle(master, 100)) == 500
    assert sum(int(value) for _, value in server.sees(0, status)) - before <= 1_000 + 3 * 11
    assert master.reads.by_kind["scan"].rows == 1_010
    assert master.reads.by_kind["scan"].queries == 12


def test_an_empty_table_is_a_cycle_of_its_own(server):
    server.table("n INT", [[1]])
    server.execute("DELETE FROM t")
    scan = server.master(dimension({"n": "int64"})).scan(None, 9)
    assert (len(scan.rows), scan.position, scan.reached) == (0, None, True)


@pytest.mark.parametrize("index", ["PRIMARY KEY (id)", "UNIQUE KEY (id)"])
def test_an_algorithm_that_only_scans_needs_no_index_on_the_key(server, index):
    server.execute(f"CREATE TABLE t (id INT NOT NULL, code VARCHAR(9), {COLUMNS}, {index})")
    master = server.master(CODE)
    [note] = master.verify(needs_unique_index=False)
    assert "a key with several rows gives a fact for each" in note
    assert "ALTER TABLE t ADD UNIQUE INDEX (code)" in note
    assert (master.unique, master.indexed) == (False, False)
    with pytest.raises(BadContract, match="no usable unique index on exactly"):
        master.verify()


@pytest.mark.parametrize(
    "index", ["KEY (code)", "UNIQUE KEY (price)", "UNIQUE KEY (ratio)", "UNIQUE KEY (kind)", "UNIQUE KEY (label(3))"]
)
def test_a_table_in_which_no_row_has_a_place_of_its_own_is_refused(server, index):
    server.execute(
        f"CREATE TABLE t (code VARCHAR(9), price INT, ratio FLOAT NOT NULL, kind ENUM('a') NOT NULL,"
        f" label VARCHAR(9) NOT NULL, {COLUMNS}, {index})"
    )
    master = server.master(CODE)
    sentence = "t has no primary key and no usable unique index.* ADD COLUMN id"
    with pytest.raises(BadContract, match=sentence):
        master.verify(needs_unique_index=False)
    with pytest.raises(BadContract, match=sentence):
        master.scan(None, 9)


@pytest.mark.parametrize(
    ("read", "named"),
    [
        (lambda master: master.lookup(pa.array([b"a"])), "lookup"),
        (lambda master: master.begin_lookup(pa.array([b"a"])), "lookup"),
        (lambda master: master.page(None, None, 9), "page"),
        (lambda master: master.borders(9), "borders"),
    ],
)
def test_without_an_index_no_read_turns_into_a_scan(server, read, named):
    server.execute(f"CREATE TABLE t (id INT PRIMARY KEY, code VARCHAR(9), {COLUMNS})")
    master = server.master(CODE)
    with pytest.raises(MillraceError, match=rf"{named} in t needs an index on \(code\)"):
        read(master)
    assert "lookup" not in master.reads.by_kind
    server.execute("ALTER TABLE t ADD UNIQUE INDEX (code)")
    read(master)


def test_the_statistics_of_a_table_without_an_index_on_the_key(server):
    server.execute(f"CREATE TABLE t (id INT PRIMARY KEY, code VARCHAR(9), {COLUMNS})")
    server.execute("INSERT INTO t (id, code, sk) VALUES (%s, %s, 1)", [(n, "x" * (n % 8)) for n in range(1_500)])
    statistics = server.master(CODE).statistics()
    assert (statistics.rows, statistics.key_bytes) == (1_500, 7)


@pytest.mark.parametrize("connections", [1, 2])
def test_a_scan_under_way_disturbs_no_other_read_and_none_is_disturbed_by_it(server, connections):
    server.table("code VARCHAR(20)", [(f"c{n:04}",) for n in range(500)])
    master = server.master(CODE, connections=connections)
    first = master.scan(None, 200)
    under_way = master.begin_scan(first.position, 200)
    assert master.lookup(pa.array([b"c0007"]))["surrogate_key"].to_pylist() == [8]
    second = under_way.answer()
    assert numbers(second.rows.to_pylist()) == list(range(201, 401))
    master.begin_scan(second.position, 200).abandon()
    assert master.lookup(pa.array([b"c0499"]))["surrogate_key"].to_pylist() == [500]
    assert numbers(master.scan(second.position, 200).rows.to_pylist()) == list(range(401, 501))


@pytest.mark.parametrize("connections", [1, 2])
def test_a_page_under_way_disturbs_no_other_read_and_none_is_disturbed_by_it(server, connections):
    server.table("code VARCHAR(20)", [(f"c{n:04}",) for n in range(500)])
    master = server.master(CODE, connections=connections)
    under_way = master.begin_page(b"c0100", b"c0200", 300, also=pa.array([b"c0007", b"c0150", b"none"]))
    assert master.lookup(pa.array([b"c0009"]))["surrogate_key"].to_pylist() == [10]
    assert sorted(under_way.answer()["surrogate_key"].to_pylist()) == [8, *range(101, 201)]
    master.begin_page(None, b"c0100", 300).abandon()
    assert numbers(master.page(b"c0490", None, 300).to_pylist()) == list(range(491, 501))
