"""The thread that follows the master's changes: what it does when the feed breaks, is refused, or comes back."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

from pipeline.driver import feed as driver_feed
from pipeline.driver.feed import FollowedFeed
from pipeline.errors import FeedRefused
from pipeline.master.feed import Changes
from tests.kit.running import wait_until


class Script:
    """A feed that does as it is told, one part each time that it is followed; the last one goes on beating."""

    def __init__(self, *parts: list[Changes] | Exception) -> None:
        self.places: list[str] = []
        self._parts = list(parts)

    def follow(self, place: str = "") -> Iterator[Changes]:
        self.places.append(place)
        part = self._parts.pop(0)
        if isinstance(part, Exception):
            raise part
        yield from part
        if self._parts:
            raise ConnectionResetError("the server went away")
        while True:
            time.sleep(0.01)  # between two heartbeats
            yield Changes(place=part[-1].place)


class Heard:
    def __init__(self) -> None:
        self.states: list[bool] = []
        self.behind: list[float] = []

    def feed(self, is_up: bool, seconds_behind: float, changes: Changes) -> None:
        assert seconds_behind >= 0
        self.behind.append(seconds_behind)
        self.states.append(is_up)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_feed, "_PAUSES", (0.01,))
    monkeypatch.setattr(driver_feed, "_AFTER_REFUSAL", 0.01)


@pytest.fixture
def follow() -> Iterator[Callable[..., tuple[FollowedFeed, Heard]]]:
    started: list[FollowedFeed] = []

    def started_with(script: Script, is_needed: bool = False) -> tuple[FollowedFeed, Heard]:
        heard = Heard()
        started.append(FollowedFeed(script, heard, is_needed))
        started[-1].log.news()  # a batch has begun, and a worker may keep rows
        started[-1].start()
        return started[-1], heard

    yield started_with
    for feed in started:
        feed.close()


def test_a_feed_that_breaks_off_goes_on_behind_what_it_told_last(follow):
    script = Script(
        [Changes({"product": pa.array([7])}, place="s/f:1")], [Changes({"product": pa.array([8])}, place="s/f:2")]
    )
    feed, heard = follow(script)
    wait_until(lambda: heard.states[-2:] == [True, True] and False in heard.states, "it is up again", 10)
    assert script.places == ["", "s/f:1"]
    assert feed.log.news().keys["product"].to_pylist() == [7, 8]
    wait_until(lambda: feed.log.news().place == "s/f:2", "what it told has settled", 10)


@pytest.mark.parametrize("hour", [3_600, -3_600])
def test_for_how_long_it_was_not_heard_of_is_by_no_clock_that_can_be_set(follow, monkeypatch, hour):
    script = Script([Changes(place="s/f:1")], *[ConnectionResetError("gone")] * 3, [Changes(place="s/f:2")])
    jumps = itertools.count(time.time(), hour)
    monkeypatch.setattr("pipeline.driver.feed.time.time", lambda: next(jumps))
    _, heard = follow(script)
    wait_until(lambda: heard.states.count(False) >= 3 and heard.states[-1], "it is up again", 10)
    assert 0 <= max(heard.behind) < 60


def test_where_it_is_needed_a_refusal_refuses_the_start(follow):
    with pytest.raises(FeedRefused, match="no log"):
        follow(Script(FeedRefused("no log"), FeedRefused("no log"), []), is_needed=True)


def test_where_it_is_not_needed_a_refusal_is_told_once_and_asked_again(follow, caplog):
    caplog.set_level("INFO", "millrace.feed")
    script = Script(FeedRefused("no log."), FeedRefused("no log."), [Changes(place="s/f:1")])
    _, heard = follow(script)
    wait_until(lambda: heard.states[-1], "it is there at last", 10)
    assert script.places == ["", "", ""]
    assert [record.getMessage() for record in caplog.records] == [
        "no log. Until then a master row may be as old as max_staleness says.",
        "following the changes of the master data from s/f:1 on",
    ]


def test_a_server_that_is_away_is_asked_again_and_told_of_once(follow, caplog):
    _, heard = follow(Script(*[ConnectionRefusedError("nobody there")] * 20, [Changes(place="s/f:1")]))
    wait_until(lambda: heard.states[-1], "it is there at last", 10)
    assert heard.states[:20] == [False] * 20
    assert sum("broke off" in record.getMessage() for record in caplog.records) <= 2
