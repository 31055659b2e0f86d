"""Several look-ups at once on the real server: side by side, and none of them left behind."""

from collections import deque

import pyarrow as pa
import pytest

from pipeline.errors import MasterReadFailed
from pipeline.master.mysql.master import MySqlMaster
from pipeline.master.mysql.pool import Pool
from tests.kit.master_fixtures import Server, dimension, found
from tests.kit.running import wait_until

pytestmark = pytest.mark.mysql

CONTRACT = dimension({"n": "int64"})
ROWS, QUESTIONS = 400, 20


@pytest.fixture
def server(stack, master_database) -> Server:
    server = Server(stack, master_database)
    server.table("n INT", [[n] for n in range(ROWS)])
    return server


def question(number: int) -> pa.Array:
    """Twenty keys."""
    return pa.array(range(20 * number, 20 * number + 20))


def answer_to(request: int) -> dict[int, int]:
    return {n: n + 1 for n in range(20 * request, 20 * request + 20)}


def sessions_waiting_for_a_lock(server: Server) -> int:
    return sum(
        database == server.name and "lock" in (state or "").lower()
        for _, _, _, database, _, _, state, *_ in server.execute("SHOW FULL PROCESSLIST")
    )


@pytest.mark.parametrize("connections", [1, 2, 5])
def test_the_answers_are_had_in_any_order_over_as_many_connections_as_there_may_be(server, connections):
    master = server.master(CONTRACT, connections=connections)
    begun = [master.begin_lookup(question(number)) for number in range(QUESTIONS)]
    for number in [*range(1, QUESTIONS, 2), *range(0, QUESTIONS, 2)]:
        assert found(begun[number].answer()) == answer_to(number)
    assert master.reads.by_kind["lookup"].queries == QUESTIONS
    assert len(server.opened) == connections


def test_the_server_works_on_several_look_ups_at_once_and_nobody_waits_until_all_connections_are_busy(server, stack):
    master = server.master(CONTRACT, connections=3)
    master.verify()
    blocker = stack.database.connect("admin", server.name)
    blocker.cursor().execute("LOCK TABLES t WRITE")
    try:
        begun = [master.begin_lookup(question(number)) for number in range(3)]
        wait_until(lambda: sessions_waiting_for_a_lock(server) == 3, "three look-ups wait for the lock at once")
    finally:
        blocker.close()
    assert [found(asked.answer()) for asked in begun] == [answer_to(number) for number in range(3)]


def test_while_an_answer_is_worked_on_other_reads_are_answered_and_none_is_mixed_up(server):
    master = server.master(CONTRACT, connections=2)
    ahead = deque([master.begin_lookup(question(0))])
    for number in range(1, QUESTIONS):
        ahead.append(master.begin_lookup(question(number)))
        assert master.page(100, None, 3)["key"].to_pylist() == [100, 101, 102]
        assert found(master.lookup(pa.array([7]))) == {7: 8}
        assert found(ahead.popleft().answer()) == answer_to(number - 1)
    assert len(server.opened) == 2


def test_two_masters_may_share_the_connections(server):
    pool = Pool(server.settings)
    masters = [MySqlMaster(server.settings, CONTRACT, pool) for _ in range(2)]
    for number in range(QUESTIONS):
        one, other = (master.begin_lookup(question(number)) for master in masters)
        assert found(one.answer()) == found(other.answer()) == answer_to(number)


def test_masters_of_a_worker_share_its_connections(server):
    masters = [MySqlMaster(server.settings, CONTRACT) for _ in range(3)]
    others = f"SELECT ID FROM information_schema.PROCESSLIST WHERE DB = '{server.name}' AND ID <> CONNECTION_ID()"
    for asked in [master.begin_lookup(question(number)) for number in range(3) for master in masters]:
        asked.answer()
    assert len(server.execute(others)) == 2
    masters[0].close()
    assert found(masters[1].lookup(pa.array([1]))) == {1: 2}
    masters[1].close()


def test_sessions_that_end_in_the_middle_cost_attempts_and_no_answer(server):
    master = server.master(CONTRACT, connections=3)
    master.verify()
    begun = [master.begin_lookup(question(number)) for number in range(3)]
    for session in range(3):  # an answer may have come already; then it is the next look-up that fails
        server.execute(f"KILL {server.ids[session]}")
    assert [found(asked.answer()) for asked in begun] == [answer_to(number) for number in range(3)]
    begun = [master.begin_lookup(question(number)) for number in range(3)]
    assert [found(asked.answer()) for asked in begun] == [answer_to(number) for number in range(3)]
    assert master.reads.by_kind["lookup"].failures >= 1
    assert len(server.opened) == 6


def test_a_failure_is_told_by_each_that_meets_it_and_leaves_the_connections_clean(server):
    master = server.master(CONTRACT, connections=3)
    assert found(master.lookup(question(0))) == answer_to(0)
    server.execute("ALTER TABLE t RENAME COLUMN sk TO surrogate")
    for asked in [master.begin_lookup(question(number)) for number in range(3)]:
        with pytest.raises(MasterReadFailed, match=r"lookup in t .*Unknown column"):
            asked.answer()
    server.execute("ALTER TABLE t RENAME COLUMN surrogate TO sk")
    assert [found(master.lookup(question(number))) for number in range(4)] == [answer_to(n) for n in range(4)]


def test_abandoned_look_ups_leave_nothing_in_the_connections(server):
    master = server.master(CONTRACT, connections=2)
    for number in range(3):
        for asked in [master.begin_lookup(question(other)) for other in range(2)]:
            asked.abandon()
        assert found(master.lookup(pa.array([200 + number]))) == {200 + number: 201 + number}
        assert master.page(300, None, 2)["key"].to_pylist() == [300, 301]


def test_a_look_up_too_long_for_the_server_is_answered_as_one(server):
    codes = [f"{n:0200d}" for n in range(1_000)]
    server.execute("DROP TABLE t")
    server.table("code VARCHAR(200)", [[code] for code in codes])
    [(before,)] = server.execute("SELECT @@GLOBAL.max_allowed_packet")
    server.execute("SET GLOBAL max_allowed_packet = 65536")
    try:
        master = server.master(dimension({"code": "string"}))
        asked = [pa.array(codes[:n], pa.binary()) for n in (10, 1_000, 5, 900)]
        begun = [master.begin_lookup(keys) for keys in asked]
        sizes = [len(each.answer()) for each in begun]
    finally:
        server.execute(f"SET GLOBAL max_allowed_packet = {before}")
    assert sizes == [10, 1_000, 5, 900]


def test_keys_that_cannot_exist_are_not_asked_for(server):
    server.execute("DROP TABLE t")
    server.table("code VARCHAR(9)", [["a"], ["b"]])
    asked = [pa.array(keys, pa.binary()) for keys in ([b"a"], [], [b"\xff"], [b"b", b"\xff"], [])]
    master = server.master(dimension({"code": "string"}))
    begun = [master.begin_lookup(keys) for keys in asked]
    assert [found(each.answer()) for each in begun] == [{b"a": 1}, {}, {}, {b"b": 2}, {}]
    assert master.reads.by_kind["lookup"].queries == 2
