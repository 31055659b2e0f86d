"""A feed that finds another host behind the database's name never goes on there as if it were the old one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeline.config.measures import Secret
from pipeline.config.settings import MasterData
from pipeline.laptop.stack import ports
from pipeline.master.feed import Changes
from pipeline.master.images import LogPlace
from pipeline.master.mysql.binlog.events import Place
from pipeline.master.open import open_feed
from tests.kit.fault_proxy import FaultProxy
from tests.kit.master_fixtures import COLUMNS, dimension
from tests.kit.replicated import ReplicatedDatabase, first_server


class OnAnotherHost(ReplicatedDatabase):
    """With the port of the first one and the same network card, as containers of two machines may seem to have."""

    number, host = 2, "127.0.0.2"


@pytest.fixture
def first(tmp_path: Path) -> Iterator[ReplicatedDatabase]:
    server = first_server(tmp_path / "first")
    server.start()
    server.execute(
        f"CREATE TABLE master.t (n BIGINT PRIMARY KEY, {COLUMNS})", "INSERT INTO master.t (n, sk) VALUES (1, 1)"
    )
    server.allow_reading(["t"])
    yield server
    server.stop()


@pytest.fixture
def second(first: ReplicatedDatabase, tmp_path: Path) -> Iterator[ReplicatedDatabase]:
    server = OnAnotherHost(tmp_path / "second", True, first._choose_program)
    server.folder.mkdir(parents=True)
    (server.folder / "ports.json").write_text(json.dumps(first.ports))
    server.replicate(first)
    yield server
    server.stop()


def followed(server: ReplicatedDatabase, place: str = "", **settings: Any) -> Iterator[Changes]:
    account = server.accounts.reader
    at = MasterData(
        host=server.host, port=server.port, user=account.user, password=Secret(account.password), database="master"
    )
    told = replace(at, **{"feed": "binlog", **settings})
    return open_feed(told, {"thing": dimension({"n": "int64"})}).follow(place)


def until(feed: Iterator[Changes], *, key: int) -> Changes:
    return next(piece for piece in feed if "thing" in piece.keys and key in piece.keys["thing"].to_pylist())


@pytest.mark.mysql
def test_on_another_host_all_may_have_changed_and_what_changes_there_is_told(first, second):
    before = followed(first)
    next(before)
    first.execute("INSERT INTO master.t (n, sk) VALUES (2, 2)")
    place = until(before, key=2).place
    second.catch_up(first)
    first.kill()
    second.promote()
    second.execute("INSERT INTO master.t (n, sk) VALUES (3, 3)")
    after = followed(second, place)
    said = next(after)
    assert said.all_of == {"thing"}
    assert Place.parse(said.place).server != Place.parse(place).server
    second.execute("INSERT INTO master.t (n, sk) VALUES (4, 4)")
    assert until(after, key=4).keys["thing"].to_pylist() == [4]


@pytest.mark.mysql
def test_where_changes_are_polled_all_may_have_changed_on_another_host(first, tmp_path, monkeypatch):
    monkeypatch.setattr("pipeline.master.mysql.polling._EVERY", 0.05)
    first.execute("ALTER TABLE master.t ADD INDEX (changed)")
    second = first.replica(tmp_path / "second")
    [port] = ports.choose(1)
    try:
        with FaultProxy(port, first.port) as line:
            pieces = followed(first, feed="poll", port=port)
            assert next(pieces).all_of == {"thing"}
            assert not any(next(pieces).all_of for _ in range(3))
            second.hear_nothing_more()
            first.execute("UPDATE master.t SET sk = 9")  # dies with it
            first.kill()
            second.promote()
            line.target = second.port
            assert next(pieces).all_of == {"thing"}
            assert not any(next(pieces).all_of for _ in range(3))
    finally:
        second.stop()


def test_a_place_that_was_kept_when_a_server_had_a_shorter_name_is_still_in_its_log():
    assert Place("AkRz83=", "changes.000001", 4).is_of("AkRz83=.1")
    assert not Place("AkRz83=.2", "changes.000001", 4).is_of("AkRz83=.1")
    assert not Place("0b2ddace-e4da", "changes.000001", 4).is_of("0d9beae1-e4da")
    assert LogPlace("AkRz83=.1", (1, 4)).is_beside(LogPlace("AkRz83=", (1, 9)))
    assert not LogPlace("AkRz83=.1", (1, 4)).is_beside(LogPlace("AkRz83=.2", (1, 9)))
