"""What a sync publishes is what is in its table, counted there by somebody else."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from pipeline.config.measures import Seconds
from pipeline.history import Wishes, dimension, sync
from pipeline.watch.scrape import Scrape, scrape
from pipeline.watch.sync import SyncMetrics
from tests.history.history_world import Workload, World
from tests.kit.running import wait_until

pytestmark = pytest.mark.mysql


@pytest.fixture
def world(stack, master_database, tmp_path: Path, monkeypatch) -> World:
    monkeypatch.setattr(dimension, "_PAGE", 7)
    world = World(stack, master_database, tmp_path)
    world.make()
    Workload(world, seed=4, keys=20).run(40)
    return world


@contextmanager
def followed(world: World, caplog: pytest.LogCaptureFixture) -> Iterator[str]:
    """Where the metrics of a sync are that follows the log."""
    stop, wishes = threading.Event(), Wishes(follow=True, every=Seconds(0.1))
    thread = threading.Thread(target=sync, args=(world.plan, wishes, stop, print))
    with caplog.at_level("INFO", "millrace.metrics"):
        thread.start()
        try:
            wait_until(lambda: "metrics on" in caplog.text, "the sync serves its metrics", 30)
            yield re.findall(r"metrics on (\S+)", caplog.text)[-1]
        finally:
            stop.set()
            thread.join()


def value(scraped: Scrape, name: str) -> float | None:
    found = scraped.samples.get(f"millrace_sync_{name}", {})
    return found.get(frozenset({("dimension", "product")}))


def test_changes_versions_and_the_snapshot_are_those_of_the_table(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    [(rows,)] = world.execute("SELECT COUNT(*) FROM product")
    with followed(world, caplog) as url:
        wait_until(lambda: value(scrape(url), "up") == 1, "the log is followed", 30)
        assert value(scrape(url), "snapshot_rows") == value(scrape(url), "snapshot_expected_rows") == rows
        assert value(scrape(url), "versions_total") == rows
        assert value(scrape(url), "changes_total") == 0
        world.execute("UPDATE product SET stock = 3", "UPDATE product SET stock = 4")
        wait_until(lambda: value(scrape(url), "changes_total") >= rows, "the changes are committed", 30)
        wait_until(lambda: value(scrape(url), "versions_total") == len(world.versions()), "so are all versions", 30)
        [(stocks,)] = world.execute("SELECT COUNT(*) FROM audit WHERE op = 'after' AND stock IN (3, 4)")
        assert value(scrape(url), "changes_total") <= stocks
        assert value(scrape(url), "snapshots_total") == 1


def test_the_position_moves_on_while_nothing_changes_and_stands_still_while_changes_wait(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with followed(world, caplog) as url:
        wait_until(lambda: value(scrape(url), "position_timestamp_seconds"), "it is known", 30)
        seen = time.time()
        wait_until(lambda: value(scrape(url), "position_timestamp_seconds") > seen, "it moves on", 30)
        may_write = threading.Event()
        write = dimension.HistoryTable._write
        monkeypatch.setattr(dimension.HistoryTable, "_write", lambda *given: (may_write.wait(60), write(*given))[1])
        world.execute("UPDATE product SET stock = 8")
        changed = time.time()
        wait_until(lambda: time.time() > changed + 2, "a while has passed", 10)
        assert value(scrape(url), "position_timestamp_seconds") < changed + 1
        may_write.set()
        wait_until(lambda: value(scrape(url), "position_timestamp_seconds") > changed + 1, "it is up again", 30)


def test_it_is_ready_when_all_its_dimensions_are_followed_and_down_while_one_is_not() -> None:
    metrics = SyncMetrics(["product", "store"])
    url = f"http://127.0.0.1:{metrics.serve('127.0.0.1', 0)}/metrics"
    try:
        metrics.followed("product", 0.0)
        assert (value(scrape(url), "up"), value(scrape(url), "position_timestamp_seconds")) == (1, None)
        ready = url.replace("metrics", "ready")
        with pytest.raises(HTTPError, match="503"):
            urlopen(ready, timeout=10)
        metrics.followed("store", 5.0)
        assert urlopen(ready, timeout=10).status == 200
        metrics.silent("product")
        assert value(scrape(url), "up") == 0
    finally:
        metrics.close()
