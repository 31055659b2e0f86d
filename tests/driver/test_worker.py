"""What a worker keeps from task to task, and when it lets go of it."""

import gc
import weakref

from pipeline.driver import worker


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
