"""Several look-ups at once on the real server: side by side, in order, and none of them left behind."""

import threading

import pyarrow as pa
import pytest

from pipeline.errors import MasterReadFailed
from pipeline.master.mysql.master import MySqlMaster
from pipeline.master.mysql.pool import Pool
from tests.kit.master_fixtures import Server, dimension, found
from tests.kit.running import wait_until

pytestmark = pytest.mark.mysql

CONTRACT = dimension({"n": "int64"})
ROWS = 400


@pytest.fixture
def server(stack, master_database) -> Server:
    server = Server(stack, master_database)
    server.table("n INT", [[n] for n in range(ROWS)])
    return server


class Requests:
    """Twenty keys at a time; remembers how many were drawn."""

    def __init__(self, number: int = ROWS // 20) -> None:
        self.number, self.drawn = number, 0

    def __iter__(self):
        for first in range(0, 20 * self.number, 20):
            self.drawn += 1
            yield pa.array(range(first, first + 20))


def answer_to(request: int) -> dict[int, int]:
    return {n: n + 1 for n in range(20 * request, 20 * request + 20)}


def sessions_waiting_for_a_lock(server: Server) -> int:
    return sum(
        database == server.name and "lock" in (state or "").lower()
        for _, _, _, database, _, _, state, *_ in server.execute("SHOW FULL PROCESSLIST")
    )


@pytest.mark.parametrize("connections", [1, 2, 5])
def test_the_answers_come_in_order_and_requests_are_drawn_no_further_than_connections_allow(server, connections):
    master, requests = server.master(CONTRACT, connections=connections), Requests()
    for number, answer in enumerate(master.lookups(requests)):
        assert found(answer) == answer_to(number)
        assert requests.drawn == min(number + 1 + connections, requests.number)
    assert number == requests.number - 1
    assert master.reads.by_kind["lookup"].queries == requests.number
    assert len(server.opened) == connections


def test_the_server_works_on_several_look_ups_at_once(server, stack):
    master = server.master(CONTRACT, connections=3)
    master.verify()
    blocker = stack.database.connect("admin", server.name)
    blocker.cursor().execute("LOCK TABLES t WRITE")
    answers: list[pa.Table] = []
    reading = threading.Thread(target=lambda: answers.extend(master.lookups(Requests(5))))
    reading.start()
    try:
        wait_until(lambda: sessions_waiting_for_a_lock(server) == 3, "three look-ups wait for the lock at once")
    finally:
        blocker.close()
    reading.join(60)
    assert [found(answer) for answer in answers] == [answer_to(number) for number in range(5)]


def test_while_an_answer_is_worked_on_other_reads_are_answered_and_none_is_mixed_up(server):
    master = server.master(CONTRACT, connections=2)
    for number, answer in enumerate(master.lookups(Requests())):
        assert master.page(100, None, 3)["key"].to_pylist() == [100, 101, 102]
        assert found(master.lookup(pa.array([7]))) == {7: 8}
        assert found(answer) == answer_to(number)
    assert len(server.opened) == 2


def test_two_streams_of_look_ups_may_share_the_connections(server):
    settings = server.settings
    pool = Pool(settings)
    masters = [MySqlMaster(settings, CONTRACT, pool) for _ in range(2)]
    pairs = zip(*(master.lookups(Requests()) for master in masters), strict=True)
    for number, (one, other) in enumerate(pairs):
        assert found(one) == found(other) == answer_to(number)


def test_masters_of_a_worker_share_its_connections(server):
    masters = [MySqlMaster(server.settings, CONTRACT) for _ in range(3)]
    others = f"SELECT ID FROM information_schema.PROCESSLIST WHERE DB = '{server.name}' AND ID <> CONNECTION_ID()"
    for master in masters:
        list(master.lookups(Requests()))
    assert len(server.execute(others)) == 2
    masters[0].close()
    assert found(masters[1].lookup(pa.array([1]))) == {1: 2}
    masters[1].close()


def test_a_session_that_ends_in_the_middle_costs_an_attempt_and_no_answer(server):
    master = server.master(CONTRACT, connections=3)
    answers = []
    for number, answer in enumerate(master.lookups(Requests())):
        answers.append(found(answer))
        if number == 4:
            for session in range(3):  # an answer may have come already; then it is the next look-up that fails
                server.execute(f"KILL {server.ids[session]}")
    assert answers == [answer_to(number) for number in range(len(answers))]
    assert len(answers) == ROWS // 20
    assert master.reads.by_kind["lookup"].failures >= 1
    assert len(server.opened) == 6


def test_a_failure_in_the_middle_is_told_once_and_leaves_the_connections_clean(server):
    master = server.master(CONTRACT, connections=3)
    answers = master.lookups(Requests())
    assert found(next(answers)) == answer_to(0)
    server.execute("ALTER TABLE t RENAME COLUMN sk TO surrogate")
    with pytest.raises(MasterReadFailed, match=r"lookup in t .*Unknown column"):
        list(answers)
    assert list(answers) == []
    server.execute("ALTER TABLE t RENAME COLUMN surrogate TO sk")
    assert [found(answer) for answer in master.lookups(Requests(4))] == [answer_to(number) for number in range(4)]


def test_what_a_request_raises_is_raised_and_leaves_the_connections_clean(server):
    master = server.master(CONTRACT, connections=3)

    def requests():
        yield from list(Requests(2))
        raise LookupError("no more")

    with pytest.raises(LookupError, match="no more"):
        list(master.lookups(requests()))
    assert found(master.lookup(pa.array([3]))) == {3: 4}


def test_abandoned_look_ups_leave_nothing_in_the_connections(server):
    master = server.master(CONTRACT, connections=2)
    for number in range(3):
        answers = master.lookups(Requests())
        assert found(next(answers)) == answer_to(0)
        answers.close()
        assert found(master.lookup(pa.array([200 + number]))) == {200 + number: 201 + number}
        assert master.page(300, None, 2)["key"].to_pylist() == [300, 301]
    answers = master.lookups(Requests())
    next(answers)
    del answers  # as a frame that ends with an exception would
    assert found(master.lookup(pa.array([9]))) == {9: 10}


def test_a_look_up_too_long_for_the_server_keeps_its_place_among_the_others(server):
    codes = [f"{n:0200d}" for n in range(1_000)]
    server.execute("DROP TABLE t")
    server.table("code VARCHAR(200)", [[code] for code in codes])
    [(before,)] = server.execute("SELECT @@GLOBAL.max_allowed_packet")
    server.execute("SET GLOBAL max_allowed_packet = 65536")
    try:
        master = server.master(dimension({"code": "string"}))
        sizes = [len(a) for a in master.lookups([pa.array(codes[:n], pa.binary()) for n in (10, 1_000, 5, 900)])]
    finally:
        server.execute(f"SET GLOBAL max_allowed_packet = {before}")
    assert sizes == [10, 1_000, 5, 900]


def test_requests_without_a_possible_key_are_answered_in_their_place(server):
    server.execute("DROP TABLE t")
    server.table("code VARCHAR(9)", [["a"], ["b"]])
    requests = [pa.array(keys, pa.binary()) for keys in ([b"a"], [], [b"\xff"], [b"b", b"\xff"], [])]
    master = server.master(dimension({"code": "string"}))
    assert [found(answer) for answer in master.lookups(requests)] == [{b"a": 1}, {}, {}, {b"b": 2}, {}]
    assert list(master.lookups([])) == []
    assert master.reads.by_kind["lookup"].queries == 2
