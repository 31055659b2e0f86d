"""The one way to a master table on a server. Another kind of database is a folder beside `mysql`, and a line here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pipeline.config.contracts import DimensionContract
from pipeline.config.inferred import InferredSettings
from pipeline.config.settings import MasterData
from pipeline.master.feed import POLLED, Feed
from pipeline.master.images import LogPlace, RowImages
from pipeline.master.mysql.binlog.events import Place
from pipeline.master.mysql.binlog.images import LogImages
from pipeline.master.mysql.feeds import feed_of
from pipeline.master.mysql.grants import statements, statements_to_infer
from pipeline.master.mysql.master import MySqlMaster
from pipeline.master.mysql.placeholders import MySqlPlaceholders
from pipeline.master.mysql.pool import Pool
from pipeline.master.mysql.server import facts_of
from pipeline.master.placeholders import Placeholders
from pipeline.master.port import MasterTable, ServerFacts
from pipeline.master.share import Share, Told


@contextmanager
def open_master(settings: MasterData, dimension: DimensionContract) -> Iterator[MasterTable]:
    """A dimension's master table, until the block ends. No session is opened before the first read."""
    master = MySqlMaster(settings, dimension)
    try:
        yield master
    finally:
        master.close()


@contextmanager
def keeping_to(share: Share, settings: MasterData) -> Iterator[Told]:
    """Until the block ends, this thread's reads keep to this share; then is told what was used of it."""
    pool, told = Pool.shared(settings), Told()
    pool.begin(share)
    try:
        yield told
    except BaseException:
        pool.abandon()
        raise
    told.sessions = pool.sessions
    told.used += pool.end()


def look_at_server(settings: MasterData) -> ServerFacts:
    """What the server says of itself and of the account. Fails as the first read of a table would."""
    return facts_of(settings)


def grants(
    settings: MasterData, dimensions: Mapping[str, DimensionContract], host: str, keeps_history: bool = False
) -> list[str]:
    """What the server's administrator allows the job's account: to read these dimensions' tables, and the log if a feed
    or a history is told by it, and nothing else."""
    reads_log = keeps_history or settings.feed in ("auto", "binlog")
    return statements(settings, dimensions.values(), host, reads_log)


def open_feed(settings: MasterData, dimensions: Mapping[str, DimensionContract]) -> Feed:
    """What tells of changes in these dimensions' master tables. Nothing is opened before it is followed."""
    return feed_of(settings, dimensions)


def place_in_log(position: str) -> LogPlace:
    """Of a change's position, its transaction's. A feed that has no log has one place.

    >>> place_in_log("8a94f357/binlog.000002:157#3"), place_in_log(POLLED)
    (LogPlace(server='8a94f357', order=(2, 157)), LogPlace(server='', order=()))
    """
    if position == POLLED:
        return LogPlace("", ())
    place = Place.parse(position.partition("#")[0])
    return LogPlace(place.server, place.order)


def open_images(settings: MasterData, dimension: DimensionContract) -> RowImages:
    """What tells the changes of this dimension's rows. Nothing is opened before it is asked."""
    return LogImages(settings, dimension)


@contextmanager
def open_placeholders(
    settings: MasterData, inferred: InferredSettings, dimension: DimensionContract
) -> Iterator[Placeholders]:
    """Who inserts placeholder rows into this dimension's master table. Refuses where none can be."""
    with MySqlPlaceholders(settings, inferred, dimension) as opened:
        yield opened


def grants_to_infer(
    settings: MasterData, inferred: InferredSettings, dimensions: Mapping[str, DimensionContract], host: str
) -> list[str]:
    """What the account that inserts placeholder rows must be allowed; nothing where nobody does."""
    return statements_to_infer(settings, inferred, dimensions.values(), host) if inferred.user else []
