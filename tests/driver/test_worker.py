"""What a worker keeps from task to task, and when it lets go of it."""

import gc
import weakref

import pytest

from pipeline.driver import worker
from pipeline.master.feed import POLLED
from pipeline.news import News


class Held:
    """As a join may be: part of a circle, which only the collector of garbage can end."""

    def __init__(self) -> None:
        self.me = self


def test_what_is_there_after_the_first_task_is_looked_at_again_only_when_all_is_forgotten() -> None:
    held = Held()
    seen = weakref.ref(held)
    try:
        worker._settle()
        settled = gc.get_freeze_count()
        worker._settle()
        assert gc.get_freeze_count() <= settled > 10_000
        del held
        gc.collect()
        assert seen() is not None
    finally:
        worker.forget()
    gc.collect()
    assert seen() is None
    assert gc.get_freeze_count() == 0


def test_sessions_and_rows_of_a_server_that_is_followed_no_more_are_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []
    monkeypatch.setattr(worker, "_followed", "")
    try:
        for place in ("", "a/log.1:4", "a/log.2:4", "", POLLED, "a/log.2:9"):
            worker._masters.callback(ended.append, place)
            worker._notice(News(place=place))
            assert not ended
        worker._notice(News(place="b/log.2:9"))
        assert len(ended) == 6
    finally:
        worker.forget()
