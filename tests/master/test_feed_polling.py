"""Changes by the update time, where the log may not be followed."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import Any

import pytest

from pipeline.errors import FeedRefused
from pipeline.master.feed import POLLED, Changes
from pipeline.master.open import open_feed
from tests.kit.master_fixtures import Server, dimension

pytestmark = pytest.mark.mysql

NOW = "changed TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6)"
KEY = {"code": "string", "n": "int64"}


@pytest.fixture
def server(stack, master_database, monkeypatch) -> Server:
    monkeypatch.setattr("pipeline.master.mysql.polling._EVERY", 0.05)
    server = Server(stack, master_database)
    server.execute(
        f"CREATE TABLE t (code VARCHAR(20), n INT, sk BIGINT, {NOW}, PRIMARY KEY (code, n), INDEX (changed))"
    )
    server.execute("INSERT INTO t (code, n, sk) VALUES ('ale', 1, 1), ('bun', 1, 2), ('cod', 1, 3)")
    return server


def follow(server: Server, feed: str = "poll") -> Generator[Changes, None, None]:
    """As an account that may not follow the log."""
    return open_feed(replace(server.settings, feed=feed), {"thing": dimension(KEY)}).follow()


def told(pieces: Generator[Changes, None, None]) -> set[Any]:
    """Of the next look."""
    piece = next(pieces)
    assert piece.place == POLLED
    return set(piece.keys["thing"].to_pylist()) if piece.keys else set(piece.all_of)


def packed(*keys: tuple[str, int]) -> set[bytes]:
    """A header of eight bytes a column, then the text."""
    return {len(code).to_bytes(8, "little") + n.to_bytes(8, "little") + code.encode() for code, n in keys}


def test_rows_that_come_and_change_are_told_once_and_rows_that_go_are_not(server):
    pieces = follow(server)
    assert next(pieces).all_of == {"thing"}
    told(pieces)  # what came in the seconds before
    assert told(pieces) == set()
    server.execute("INSERT INTO t (code, n, sk) VALUES ('dip', 2, 4)")
    server.execute("UPDATE t SET sk = 9 WHERE code = 'bun'")
    server.execute("DELETE FROM t WHERE code = 'cod'")
    assert told(pieces) == packed(("dip", 2), ("bun", 1))
    assert told(pieces) == set()
    server.execute("UPDATE t SET sk = 10 WHERE code = 'bun'")
    assert told(pieces) == packed(("bun", 1))
    pieces.close()


def test_what_is_committed_after_a_look_is_told_by_the_next_although_its_time_is_earlier(server):
    pieces = follow(server)
    next(pieces)
    told(pieces)
    with server.stack.database.connect("admin", server.name) as connection, connection.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("UPDATE t SET sk = 9 WHERE code = 'ale'")
        assert told(pieces) == told(pieces) == set()
        cursor.execute("COMMIT")
    assert told(pieces) == packed(("ale", 1))
    pieces.close()


def test_too_many_to_name_are_told_as_all_of_the_table(server, monkeypatch):
    monkeypatch.setattr("pipeline.master.mysql.polling._MOST_KEYS", 2)
    pieces = follow(server)
    next(pieces)
    server.execute("UPDATE t SET sk = sk + 10")
    assert told(pieces) == {"thing"}
    pieces.close()


def test_an_account_that_may_not_follow_the_log_polls_and_without_an_index_it_is_refused_with_both_ways_out(server):
    pieces = follow(server, "auto")
    assert next(pieces).place == POLLED
    pieces.close()
    server.execute("ALTER TABLE t DROP INDEX changed")
    with pytest.raises(FeedRefused, match=r"(?s)GRANT REPLICATION SLAVE.*ADD INDEX \(changed\)"):
        next(follow(server, "auto"))
