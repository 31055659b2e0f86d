"""Look-ups in pieces on the real server: every row of the keys once, and never more of them than there is room for."""

from itertools import chain

import pyarrow as pa
import pytest

from pipeline.errors import MillraceError
from tests.kit.master_fixtures import Server, dimension

pytestmark = pytest.mark.mysql

CODE = dimension({"code": "string"})
BY_PLACE = "id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, sk BIGINT, changed TIMESTAMP(6) NOT NULL DEFAULT NOW(6)"


@pytest.fixture
def server(stack, master_database) -> Server:
    return Server(stack, master_database)


def many(server: Server, codes: list[str], ddl: str = "code VARCHAR(200) COLLATE utf8mb4_general_ci") -> None:
    """A table where a code may come many times, with an index that says nothing else."""
    server.execute(f"CREATE TABLE t ({BY_PLACE}, {ddl}, KEY by_code (code)) ENGINE = InnoDB")
    server.execute("INSERT INTO t (code, sk) VALUES (%s, %s)", [(code, n) for n, code in enumerate(codes, start=1)])


def in_pieces(master, keys: list[str], rows: int) -> list[list[int]]:
    position, read = None, []
    while not read or position is not None:
        piece = master.lookup_from(pa.array(keys, pa.binary()), position, rows)
        assert piece.reached == (piece.position is None)
        position = piece.position
        read.append(piece.rows["surrogate_key"].to_pylist())
    return read


@pytest.mark.parametrize("rows", [1, 3, 10, 500])
def test_every_row_of_the_keys_comes_once_in_pieces(server, rows):
    # The collation takes C2 for c2, and "c1 " for c1.
    codes = [f"c{n * n % 7}" for n in range(60)] + ["C2", "c9", "c1 "]
    many(server, codes)
    wanted = ["c1", "c2", "c3", "c4", "none"]
    pieces = in_pieces(server.master(CODE), wanted, rows)
    assert max(map(len, pieces)) <= rows
    assert sorted(chain.from_iterable(pieces)) == [n for n, code in enumerate(codes, start=1) if code in wanted]


def test_where_the_key_is_the_place_of_a_row_too(server):
    server.table("code VARCHAR(9)", [[f"c{n}"] for n in range(9)])
    assert list(chain.from_iterable(in_pieces(server.master(CODE), ["c7", "x", "c3", "c5"], 2))) == [4, 6, 8]


def test_keys_too_long_for_one_statement_are_asked_for_in_several(server, stack):
    codes = [f"{n % 400:0150d}" for n in range(1_000)]
    many(server, codes)
    [(before,)] = server.execute("SELECT @@GLOBAL.max_allowed_packet")
    server.execute("SET GLOBAL max_allowed_packet = 65536")
    try:
        master = server.master(CODE)
        pieces = in_pieces(master, sorted(set(codes)), 150)
    finally:
        server.execute(f"SET GLOBAL max_allowed_packet = {before}")
    assert sorted(chain.from_iterable(pieces)) == list(range(1, 1_001))
    assert max(map(len, pieces)) <= 150
    assert master.reads.by_kind["lookup"].rows == 1_000


def test_a_row_that_comes_or_goes_between_pieces_moves_no_other(server):
    many(server, ["a"] * 30)
    master = server.master(CODE)
    first = master.lookup_from(pa.array([b"a"]), None, 10)
    server.execute("DELETE FROM t WHERE sk < 8")
    server.execute("INSERT INTO t (id, code, sk) VALUES (-5, 'a', 77)")
    second = master.lookup_from(pa.array([b"a"]), first.position, 100)
    assert second.rows["surrogate_key"].to_pylist() == list(range(11, 31))


def test_keys_that_no_row_can_have_are_not_asked_for(server):
    many(server, ["a"])
    master = server.master(CODE)
    answer = master.lookup_from(pa.array([b"\xff"]), None, 10)
    assert (len(answer.rows), answer.reached, answer.position) == (0, True, None)
    assert master.reads.by_kind["lookup"].queries == 0
    assert in_pieces(master, [b"\xff", b"a"], 10) == [[1]]


def test_without_an_index_it_would_read_the_whole_table(server):
    server.execute(f"CREATE TABLE t ({BY_PLACE}, code VARCHAR(9)) ENGINE = InnoDB")
    with pytest.raises(MillraceError, match=r"lookup in t needs an index on \(code\)"):
        server.master(CODE).lookup_from(pa.array([b"a"]), None, 10)


def test_the_server_finds_the_rows_by_the_index_of_the_key(server):
    """Not by walking along the primary key, which would be in the right order too."""
    many(server, [f"c{n}" for n in range(3_000)] + ["hot"] * 30)
    master = server.master(CODE)
    idle, before = handler_reads(server), handler_reads(server)  # to look at the counters reads rows, too
    assert len(master.lookup_from(pa.array([b"hot", b"c5"]), None, 10).rows) == 10
    assert handler_reads(server) - before - (before - idle) < 300


def handler_reads(server: Server) -> int:
    found = server.execute("SHOW GLOBAL STATUS LIKE 'Handler_read%'")
    return sum(int(count) for name, count in found if name != "Handler_read_key")
