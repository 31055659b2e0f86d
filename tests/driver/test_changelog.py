"""What is told to whom: no worker ever serves a row from memory that it should have forgotten."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from pipeline.driver.changelog import ChangeLog
from pipeline.master.feed import Changes


def test_what_came_before_the_first_batch_is_told_to_nobody_for_nobody_keeps_anything() -> None:
    log = ChangeLog()
    log.add(Changes(all_of=frozenset({"product"}), place="s/f:4"))
    news = log.news()
    assert (news.settled, news.place) == (-1, "s/f:4")
    assert not news.all_of


def test_the_place_that_a_batch_notes_is_one_up_to_which_every_read_sees_the_changes() -> None:
    now = [0.0]
    log = ChangeLog(lambda: now[0])
    seen = []
    for now[0], place in ((0.0, "s/f:4"), (0.5, "s/f:9"), (1.2, "s/f:9"), (1.6, "s/f:20"), (9.0, "s/f:20")):
        log.add(Changes({"product": pa.array([7])}, place=place))
        seen.append(log.news().place)
    now[0] = 10.0
    assert [*seen, log.news().place] == ["s/f:4", "s/f:4", "s/f:4", "s/f:9", "s/f:20", "s/f:20"]


def test_the_log_does_not_grow_while_a_worker_stays_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.driver.changelog._MOST_KEYS", 100)
    log = ChangeLog()
    before = log.news()
    log.heard(["idle"], before)
    for number in range(1_000):
        log.add(Changes({"product": pa.array([number])}))
    news = log.news()
    assert len(news.keys["product"]) <= 100
    assert news.forgets("product", before.settled) is None  # everything


def test_how_often_a_table_was_altered_is_told_with_every_news_from_then_on() -> None:
    log = ChangeLog()
    for altered in ({"product"}, {"product", "store"}):
        log.add(Changes(all_of=frozenset(altered), altered=frozenset(altered)))
    assert log.news().altered == log.news().altered == {"product": 2, "store": 1}


def test_up_to_when_all_is_told_stays_where_it_was_while_the_feed_is_silent_and_is_not_known_of_others() -> None:
    log = ChangeLog()
    for changes in (Changes(told_until={"product": 50.0}), Changes(told_until={"product": 51.5}), Changes()):
        log.add(changes)
    news = log.news()
    assert (news.age("product", now=61.5), news.age("product", now=51.0)) == (10.0, 0.0)
    assert news.age("store", now=61.5) == float("inf")


def test_whatever_workers_come_and_go_each_forgets_each_change_and_again_until_it_has_settled() -> None:
    """Workers at random, some new, batches that fail, a clock that jumps. What is owed to a worker is kept here: a
    change from the moment it came, until the worker has forgotten it at the age of a second."""
    choose, told = random.Random(3), 0
    for _ in range(60):
        now = [0.0]
        log = ChangeLog(lambda now=now: now[0])
        log.news()
        known: dict[str, int | None] = {}
        owed: dict[str, set[int]] = {}
        came: dict[int, float] = {}
        for key in range(300):
            now[0] += choose.choice([0.01, 0.3, 1.5, 40.0])
            if choose.random() < 0.5:
                log.add(Changes({"product": pa.array([key])}))
                came[key] = now[0]
                for keys in owed.values():
                    keys.add(key)
            news = log.news()
            here = [name for name in "abc" if choose.random() < 0.6]
            for name in here:
                if name not in known or choose.random() < 0.05:  # it is a new one, or has dropped all it had
                    known[name], owed[name] = None, set()
                forgets = news.forgets("product", known[name])
                assert forgets is None or owed[name] <= set(forgets.to_pylist())
                told += len(owed[name])
                known[name] = news.settled
                # What it reads in this batch may be older than a change of a moment ago.
                owed[name] = {recent for recent, at in came.items() if now[0] - at < 1.0}
            if choose.random() < 0.9:
                log.heard(here, news)
    assert told > 10_000
