"""Which feed: what `master.feed` names, or the best that the server allows."""

from __future__ import annotations

from collections.abc import Generator, Mapping

from pipeline.config.contracts import DimensionContract
from pipeline.config.settings import MasterData
from pipeline.errors import FeedRefused
from pipeline.master.feed import POLLED, Changes, Feed
from pipeline.master.mysql.binlog.follow import BinlogFeed
from pipeline.master.mysql.polling import PollingFeed


def feed_of(settings: MasterData, dimensions: Mapping[str, DimensionContract]) -> Feed:
    if settings.feed == "poll":
        return PollingFeed(settings, dimensions)
    binlog = BinlogFeed(settings, dimensions)
    return binlog if settings.feed == "binlog" else _First(binlog, PollingFeed(settings, dimensions))


class _First:
    """The log, or where it may not be followed the update times."""

    def __init__(self, log: Feed, update_times: Feed) -> None:
        self._log, self._update_times = log, update_times

    def follow(self, place: str = "") -> Generator[Changes, None, None]:
        try:
            yield from self._log.follow("" if place == POLLED else place)
        except FeedRefused as no_log:
            try:
                yield from self._update_times.follow()
            except FeedRefused as nor_polling:
                raise FeedRefused(f"{no_log} {nor_polling}") from nor_polling
