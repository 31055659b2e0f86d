"""The driver's loop where what meets whom is the subject."""

import threading
from contextlib import suppress

from pipeline.driver.query import RunningQuery


class QueryWithABatchAtTheDoor:
    """Stands where Spark's query stands: to stop, it waits for the batch that was about to begin."""

    def __init__(self, stream: RunningQuery) -> None:
        self._batch = threading.Thread(target=self._begin, args=(stream,), daemon=True)
        self.refused, self.isActive = False, True

    def _begin(self, stream: RunningQuery) -> None:
        with suppress(InterruptedError):
            stream._on_batch(None, 1)
            return
        self.refused = True

    def stop(self) -> None:
        self._batch.start()
        self._batch.join(10)


def stream_of_nothing() -> RunningQuery:
    return RunningQuery(
        spark=None, plan=None, reader=None, warehouse=None, lineage=None, merging=None, healing=None, changes=None,
        load=None, metrics=None,
    )  # fmt: skip


def test_a_stop_does_not_wait_for_a_batch_that_waits_for_the_stop() -> None:
    stream = stream_of_nothing()
    query = QueryWithABatchAtTheDoor(stream)
    stream._stop(query)
    assert query.refused


def test_a_query_that_is_begun_anew_lets_go_of_the_old_ones_batch_and_takes_its_own(monkeypatch) -> None:
    stream = stream_of_nothing()
    query, another = QueryWithABatchAtTheDoor(stream), object()
    monkeypatch.setattr(stream, "_start", lambda: another)
    assert stream._begun_anew(query) is another
    assert query.refused
    assert not stream._stopped
    query.isActive = False
    assert stream._begun_anew(query) is query  # what has ended it is still to be told
