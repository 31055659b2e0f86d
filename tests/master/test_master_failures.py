"""A master that cannot be read: what passes is waited for, what does not fails at once, and nothing is a miss."""

import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from pipeline.config.measures import Seconds, Secret
from pipeline.errors import MasterReadFailed
from pipeline.master.mysql.master import MySqlMaster
from tests.kit.master_fixtures import Server, dimension, found
from tests.kit.running import wait_until

pytestmark = pytest.mark.mysql

CONTRACT = dimension({"n": "int64"})
KEYS = pa.array([1, 2, 3])


@pytest.fixture
def server(stack, master_database) -> Server:
    server = Server(stack, master_database)
    server.table("n INT", [[1], [2]])
    return server


class InBackground:
    """A call in a thread of its own; `result` waits for it and hands on what it raised."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._outcome: list[Any] = []
        self._error: list[BaseException] = []
        self._thread = threading.Thread(target=self._run, args=[call], daemon=True)
        self._thread.start()

    def _run(self, call: Callable[[], Any]) -> None:
        try:
            self._outcome.append(call())
        except BaseException as error:  # noqa: BLE001 handed on by result()
            self._error.append(error)

    def result(self) -> Any:
        self._thread.join(60)
        if self._error:
            raise self._error[0]
        return self._outcome[0]


def attempts_failed(master: MySqlMaster) -> int:
    return sum(count.failures for count in master.reads.by_kind.values())


def waiting_for_the_lock(server: Server) -> bool:
    sessions = server.execute("SHOW FULL PROCESSLIST")  # id, user, host, database, command, seconds, state, statement
    return any(
        database == server.name and "lock" in (state or "").lower() and (statement or "").startswith("SELECT `n`")
        for _, _, _, database, _, _, state, statement, *_ in sessions
    )


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_server_that_goes_away_in_the_middle_of_a_read_is_waited_for(server, stack, end):
    master = server.master(CONTRACT)
    assert found(master.lookup(KEYS)) == {1: 1, 2: 2}
    blocker = stack.database.connect("admin", server.name)
    blocker.cursor().execute("LOCK TABLES t WRITE")
    read = InBackground(lambda: master.lookup(KEYS))
    wait_until(lambda: waiting_for_the_lock(server), "the read waits for the lock")
    getattr(stack.database, end)()
    try:
        wait_until(lambda: attempts_failed(master) >= 3, "three attempts have failed")
    finally:
        stack.database.start()
    assert found(read.result()) == {1: 1, 2: 2}
    assert master.reads.by_kind["lookup"].failures >= 3
    assert master.reads.by_kind["lookup"].queries == 2


def test_a_session_the_server_has_ended_is_opened_again(server):
    master = server.master(CONTRACT)
    master.lookup(KEYS)
    [(session,)] = server.sees(0, "SELECT CONNECTION_ID()")
    server.execute(f"KILL {int(session)}")
    assert found(master.lookup(KEYS)) == {1: 1, 2: 2}
    assert (len(server.opened), master.reads.by_kind["lookup"].failures) == (2, 1)


def test_a_statement_that_takes_too_long_is_ended_and_tried_again(server, stack):
    master = server.master(CONTRACT, read_timeout=Seconds(0.5))
    master.lookup(KEYS)
    blocker = stack.database.connect("admin", server.name)
    blocker.cursor().execute("LOCK TABLES t WRITE")
    read = InBackground(lambda: master.lookup(KEYS))
    wait_until(lambda: attempts_failed(master) >= 2, "two attempts have run out of time")
    blocker.close()
    assert found(read.result()) == {1: 1, 2: 2}


def test_a_server_that_stays_away_fails_the_read_with_the_whole_story(server, stack):
    master = server.master(CONTRACT, retry_for=Seconds(0.5))
    master.lookup(KEYS)
    stack.database.stop()
    try:
        with pytest.raises(MasterReadFailed) as failed:
            master.lookup(KEYS)
    finally:
        stack.database.start()
    story = str(failed.value)
    for part in ("lookup in t", f"127.0.0.1:{stack.database.port}/{server.name}", "times in 0.", "retry_for", "2003"):
        assert part in story
    assert server.settings.password not in story
    assert found(master.lookup(KEYS)) == {1: 1, 2: 2}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"password": Secret("wrong-secret")}, "Access denied"),
        ({"user": "nobody"}, "Access denied"),
        ({"database": "nowhere"}, "nowhere"),
        ({"password_file": "no/such/file"}, "master.password_file = no/such/file cannot be read"),
        ({"tls_ca": "no/such/file"}, "master.tls_ca = no/such/file is no readable file of certificates"),
    ],
)
def test_what_does_not_pass_by_itself_fails_at_the_first_attempt(server, change, said):
    master = server.master(CONTRACT, **change)
    with pytest.raises(MasterReadFailed, match=said) as failed:
        master.lookup(KEYS)
    assert attempts_failed(master) == 1
    assert "wrong-secret" not in str(failed.value)


def test_a_table_the_user_may_not_read_fails_at_once(server, stack):
    reader = stack.database.accounts.reader
    server.execute(f"GRANT SELECT (n) ON `{server.name}`.t TO '{reader.user}'@'127.0.0.1'")
    master = server.master(CONTRACT, user=reader.user, password=Secret(reader.password))
    with pytest.raises(Exception, match=r"t\.sk: the contract .* names this column"):
        master.lookup(KEYS)


def test_a_column_that_goes_away_in_mid_run_fails_at_once_and_heals_when_it_is_back(server):
    master = server.master(CONTRACT)
    master.lookup(KEYS)
    server.execute("ALTER TABLE t RENAME COLUMN sk TO surrogate")
    with pytest.raises(MasterReadFailed, match="Unknown column"):
        master.lookup(KEYS)
    assert attempts_failed(master) == 1
    server.execute("ALTER TABLE t RENAME COLUMN surrogate TO sk")
    assert found(master.lookup(KEYS)) == {1: 1, 2: 2}


def test_the_password_file_is_read_anew_for_every_session(server, stack, tmp_path):
    file = tmp_path / "password"
    account = stack.database.accounts.owner
    file.write_text("not yet\n")
    master = server.master(CONTRACT, password=Secret(""), password_file=str(file))
    with pytest.raises(MasterReadFailed, match="Access denied"):
        master.lookup(KEYS)
    file.write_text(f"{account.password}\n")
    assert found(master.lookup(KEYS)) == {1: 1, 2: 2}
