"""Whoever opens a master table ends its sessions, however the block ends."""

from __future__ import annotations

import time

import pyarrow as pa
import pytest

from pipeline.master.open import open_master
from tests.kit.master_fixtures import Server, dimension

pytestmark = pytest.mark.mysql
CONTRACT = dimension({"n": "int64"})


@pytest.fixture
def server(stack, master_database) -> Server:
    return Server(stack, master_database)


def sessions(server: Server) -> int:
    """The job's account's; the test itself looks with another."""
    own = f"DB = DATABASE() AND USER = '{server.settings.user}'"
    [(number,)] = server.execute(f"SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE {own}")
    return int(number)


def none_is_left(server: Server) -> bool:
    deadline = time.monotonic() + 30
    while (left := sessions(server)) and time.monotonic() < deadline:
        pass
    return not left


def test_no_session_is_opened_before_the_first_read_and_none_is_left_behind_the_block(server):
    server.table("n INT", [(1,), (2,)])
    with open_master(server.settings, CONTRACT) as master:
        assert sessions(server) == 0
        assert master.verify() == []
        assert master.lookup(pa.array([2, 3]))["surrogate_key"].to_pylist() == [2]
        assert sessions(server) == 1
    assert none_is_left(server)


def test_a_failure_in_the_block_ends_the_sessions_too(server):
    server.table("n INT", [(1,)])

    def work() -> None:
        with open_master(server.settings, CONTRACT) as master:
            master.statistics()
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        work()
    assert none_is_left(server)
