"""How long a read is tried again, by a clock that the test holds."""

import ssl
from dataclasses import replace

import pyarrow as pa
import pymysql.err
import pytest

from pipeline.config.measures import Seconds, Secret
from pipeline.config.settings import MasterData
from pipeline.errors import BadSetting, MasterReadFailed
from pipeline.master.mysql.connection import Means
from pipeline.master.mysql.faults import is_passing
from pipeline.master.mysql.pool import Pool
from pipeline.master.port import ReadCount
from pipeline.master.share import Share

SETTINGS = MasterData(user="anna", password=Secret("hush"), retry_for=Seconds(10))
REFUSED = pymysql.err.OperationalError(2003, "Can't connect to MySQL server")


def answer(value):
    return [pa.chunked_array([pa.array([value], pa.binary())])]


class Session:
    def __init__(self, server):
        self.server = server

    def send(self, sql):
        self.sent = sql
        if sql == "READ" and self.server.unsendable:
            raise self.server.unsendable.pop(0)

    def receive(self):
        if self.sent == "SELECT @@max_allowed_packet":
            return answer(b"65536")
        if self.sent == "READ" and self.server.faults:
            raise self.server.faults.pop(0)
        return answer(b"answer")

    def close(self):
        self.server.closed += 1


class Server:
    """Answers every statement, unless the script says otherwise for the next connections or reads."""

    def __init__(self):
        self.now = 0.0
        self.slept = []
        self.connected = self.closed = 0
        self.refusals = []
        self.faults = []
        self.unsendable = []

    def connect(self, address):
        self.connected += 1
        if self.refusals:
            raise self.refusals.pop(0)
        return Session(self)

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds

    @property
    def means(self):
        return Means(self.connect, lambda: self.now, self.sleep)

    def pool(self, **changes):
        return Pool(replace(SETTINGS, **changes), self.means)


@pytest.fixture
def server():
    return Server()


def test_a_passing_fault_is_waited_out_twice_as_long_each_time(server):
    count = ReadCount()
    server.refusals = [REFUSED] * 5
    assert server.pool().query("READ", "a test", count) == answer(b"answer")
    assert count.failures == 5
    for slept, longest in zip(server.slept, [0.05, 0.1, 0.2, 0.4, 0.8], strict=True):
        assert longest / 2 <= slept <= longest


def test_the_last_attempt_is_made_when_the_time_is_over_and_not_later(server):
    server.refusals = [REFUSED] * 1000
    with pytest.raises(MasterReadFailed) as failed:
        server.pool().query("READ", "looking up", ReadCount())
    assert server.now == pytest.approx(10)
    assert f"looking up failed on anna@127.0.0.1:3306/master {server.connected} times in 10.0 s" in str(failed.value)
    assert "Can't connect" in str(failed.value)
    assert "hush" not in str(failed.value)


def test_waiting_for_a_server_is_told_every_few_seconds_and_so_is_its_end(server, caplog):
    caplog.set_level("INFO", "millrace.master")
    server.refusals = [REFUSED] * 11  # some twenty seconds of waiting
    pool = server.pool(retry_for=Seconds(60))
    assert pool.query("READ", "looking up", ReadCount()) == answer(b"answer")
    *waiting, over = [record.getMessage() for record in caplog.records]
    assert 2 <= len(waiting) <= 1 + server.now / 5
    assert waiting[0].startswith("looking up failed on anna@127.0.0.1:3306/master: (2003, ")
    assert waiting[0].endswith(" s more")
    assert over == "127.0.0.1:3306 answers again"
    assert "hush" not in caplog.text


def test_a_fault_that_passes_in_a_second_is_not_told(server, caplog):
    caplog.set_level("INFO", "millrace.master")
    server.refusals = [REFUSED] * 3
    server.pool().query("READ", "looking up", ReadCount())
    assert caplog.records == []


def test_a_read_that_is_to_be_tried_once_does_not_speak_of_trying_longer(server):
    server.refusals = [REFUSED]
    with pytest.raises(MasterReadFailed, match=r"It was not tried again\. Start the server") as failed:
        server.pool(retry_for=Seconds(0)).query("READ", "looking up", ReadCount())
    assert "times" not in str(failed.value)
    assert "retry_for" not in str(failed.value)


def test_a_deadlock_is_tried_again_on_a_new_session(server):
    server.faults = [pymysql.err.OperationalError(1213, "Deadlock found")]
    assert server.pool().query("READ", "a test", ReadCount())
    assert server.connected == 2


def test_a_lasting_fault_is_not_waited_for(server):
    server.faults = [pymysql.err.ProgrammingError(1146, "Table doesn't exist")]
    with pytest.raises(MasterReadFailed, match="Table doesn't exist"):
        server.pool().query("READ", "a test", ReadCount())
    assert server.slept == []


def test_a_session_in_use_is_kept_and_an_idle_one_is_replaced(server):
    pool = server.pool()
    for _ in range(3):
        server.now += 29
        pool.query("READ", "a test", ReadCount())
    assert server.connected == 1
    server.now += 31
    pool.query("READ", "a test", ReadCount())
    assert server.connected == 2


def test_an_interrupt_in_a_read_ends_the_session(server):
    pool = server.pool()
    pool.query("READ", "a test", ReadCount())
    server.faults = [KeyboardInterrupt()]
    with pytest.raises(KeyboardInterrupt):
        pool.query("READ", "a test", ReadCount())
    pool.query("READ", "a test", ReadCount())
    assert server.connected == 2


def test_a_statement_that_could_not_be_sent_is_told_or_tried_again_when_its_answer_is_wanted(server):
    count = ReadCount()
    server.unsendable = [ConnectionResetError(104, "reset")]
    request = server.pool().send("READ", "a test", count)
    assert count.failures == 0
    assert request.answer() == answer(b"answer")
    assert (count.failures, server.connected) == (1, 2)


def test_no_more_statements_begin_in_a_second_than_allowed_on_all_connections_together(server):
    pool = server.pool(connections=3, queries_per_second=40)
    began = []
    for _ in range(25):
        requests = []
        for _ in range(3):
            requests.append(pool.send("READ", "a test", ReadCount()))
            began.append(server.now)
        for request in requests:
            assert request.answer() == answer(b"answer")
    # What makes three sessions ready counts too, eleven statements each; and one was received a second late.
    assert [began.count(moment) for moment in sorted(set(began))] == [7, 39, 29]
    assert sorted(set(began)) == pytest.approx([0, 1, 2])


def test_rows_that_did_not_come_may_come_with_the_next_statement(server):
    pool = server.pool(connections=1, rows_per_second=100)
    pool.query("READ", "a test", ReadCount(), rows=80)
    for _ in range(2):  # what made the session ready brought a row each time, and so does each of these
        began = server.now
        while server.now == began:
            pool.query("READ", "a test", ReadCount(), rows=80)
    assert server.now == pytest.approx(2.0)
    assert pool.waited == pytest.approx(2.0)


def test_what_waits_for_rows_that_are_under_way_receives_them_first(server):
    pool = server.pool(connections=3, rows_per_second=100)
    requests = [pool.send("READ", "a test", ReadCount(), rows=90) for _ in range(3)]
    assert [request.answer() for request in requests] == [answer(b"answer")] * 3


def test_when_a_task_ends_only_the_sessions_stay_open_that_its_share_lets_it_keep(server):
    pool = server.pool()
    pool.begin(Share(connections=3, kept=1))
    for request in [pool.send("READ", "a test", ReadCount()) for _ in range(3)]:
        request.answer()
    assert (server.connected, server.closed) == (3, 0)
    pool.end()
    assert server.closed == 2
    pool.begin(Share(connections=1, kept=0))
    pool.query("READ", "a test", ReadCount())
    pool.end()
    assert (server.connected, server.closed) == (3, 3)


def test_attempts_that_fail_count_as_statements_that_began(server):
    pool = server.pool(queries_per_second=0.5)
    server.refusals = [REFUSED] * 3
    pool.query("READ", "a test", ReadCount())
    assert server.now == pytest.approx(2 * (3 + 1 + 10))  # and those that make the session ready


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf")])
def test_a_cap_that_is_no_rate_is_refused(value):
    with pytest.raises(BadSetting, match=r"master\.queries_per_second"):
        MasterData(queries_per_second=value)


@pytest.mark.parametrize("value", [-1, 10_001])
def test_a_number_of_connections_that_cannot_work_is_refused(value):
    with pytest.raises(BadSetting, match=r"master\.connections"):
        MasterData(connections=value)


def test_a_forked_worker_does_not_wait_for_its_parents_answers(server, monkeypatch):
    request = server.pool().send("READ", "a test", ReadCount())
    monkeypatch.setattr("os.getpid", lambda: -1)
    assert request.answer() == answer(b"answer")
    assert server.connected == 2


@pytest.mark.parametrize(
    ("number", "passing"),
    [
        *[(number, True) for number in (1040, 1053, 1205, 1213, 1317, 1927, 1969, 2003, 2006, 2013, 3024)],
        *[(number, False) for number in (1044, 1045, 1049, 1054, 1064, 1142, 1146, 1153, 1176, 1271)],
    ],
)
def test_the_servers_number_says_whether_a_fault_passes(number, passing):
    assert is_passing(pymysql.err.OperationalError(number, "a sentence")) is passing


def test_a_certificate_that_is_not_trusted_does_not_pass():
    untrusted = ssl.SSLCertVerificationError(1, "certificate verify failed")
    wrapped = pymysql.err.OperationalError(2003, "Can't connect")
    wrapped.original_exception = untrusted
    assert not is_passing(untrusted)
    assert not is_passing(wrapped)


@pytest.mark.parametrize(
    "broken",
    [
        TimeoutError(),
        ConnectionResetError(104, "reset"),
        EOFError(),
        pymysql.err.InterfaceError(0, ""),
        pymysql.err.InternalError("Packet sequence number wrong - got 7 expected 1"),
    ],
)
def test_a_broken_connection_without_a_number_passes(broken):
    assert is_passing(broken)


def test_a_slip_of_ours_does_not_pass():
    assert not is_passing(KeyError("n"))
    assert not is_passing(ValueError("bad"))
