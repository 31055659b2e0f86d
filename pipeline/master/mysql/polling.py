"""Where no binary log may be followed: which rows have an update time that is new, asked every second.

It takes an index on the update time, or every look would read the whole table. Rows that go are not seen, nor rows
that change without a new update time, nor what a transaction wrote that was open for longer than `_OVERLAP`. All of
these are as old as `max_staleness` says, as they are without a feed.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping

import pyarrow as pa

from pipeline import keys
from pipeline.config.contracts import DimensionContract
from pipeline.config.settings import MasterData
from pipeline.errors import FeedRefused
from pipeline.master.feed import POLLED, Changes
from pipeline.master.mysql.catalogue import Catalogue
from pipeline.master.mysql.drivers import as_rows
from pipeline.master.mysql.literals import quoted
from pipeline.master.mysql.pool import Pool
from pipeline.master.mysql.reading import Reader
from pipeline.master.mysql.rows import natural_key

_EVERY = 1.0  # seconds
_OVERLAP = 5  # seconds that each look goes back behind the one before: a row is seen when it is committed, not before
_MOST_KEYS = 100_000


class PollingFeed:
    """The feed of a server whose log may not be followed."""

    def __init__(self, settings: MasterData, dimensions: Mapping[str, DimensionContract]) -> None:
        self._settings, self._dimensions = settings, dimensions

    def follow(self, place: str = "") -> Generator[Changes, None, None]:
        pool = Pool.shared(self._settings)
        try:
            tables = {name: _Table(pool, contract) for name, contract in self._dimensions.items()}
            yield Changes(all_of=frozenset(tables), place=POLLED)
            while True:
                found = {name: table.changed() for name, table in tables.items()}
                yield Changes(
                    {name: some for name, some in found.items() if some is not None and len(some)},
                    frozenset(name for name, some in found.items() if some is None),
                    place=POLLED,
                )
                time.sleep(_EVERY)
        finally:
            pool.close()


class _Table:
    """One dimension's table, and what the last look saw of it."""

    def __init__(self, pool: Pool, contract: DimensionContract) -> None:
        self._contract, self._reader = contract, Reader(pool, contract, time.monotonic)
        catalogue = Catalogue.read(self._reader.describe, contract.table)
        updated_at = contract.updated_at.lower()
        index = next((index for index in catalogue.indexes if index.columns[0] == updated_at), None)
        if index is None:
            raise FeedRefused(
                f"{contract.table} has no index that begins with {contract.updated_at}, by which changes could be "
                f"polled. ALTER TABLE {contract.table} ADD INDEX ({contract.updated_at})."
            )
        columns = [part.column for part in contract.natural_key]
        self._select = (
            f"SELECT {', '.join(map(quoted, [*columns, contract.updated_at]))} FROM {quoted(contract.table)} "
            f"FORCE INDEX ({quoted(index.name)}) WHERE {quoted(contract.updated_at)} >= "
        )
        self._since, self._server = self._now()
        self._seen: set[tuple[object, ...]] = set()

    def changed(self) -> pa.Array | None:
        """The keys of rows that came or changed since the last look; None: too many to name, or another server looks
        back now, which need not have had all that the one before had."""
        before = self._server
        now, self._server = self._now()
        raw = self._reader.read("poll", f"{self._select}'{self._since}' LIMIT {_MOST_KEYS + 1}")
        self._since = now
        rows = as_rows(raw)
        seen, self._seen = self._seen, set(rows)
        if len(rows) > _MOST_KEYS or self._server != before:
            return None
        new = pa.array([row not in seen for row in rows], pa.bool_())
        return keys.pack(natural_key(raw[:-1], self._contract)).filter(new)

    def _now(self) -> tuple[str, str]:
        """The server's time, a little earlier; and which server that is."""
        which = "CONCAT(@@hostname, '.', @@server_id, ':', @@port)"
        [(moment, server)] = self._reader.describe(
            f"SELECT NOW(6) - INTERVAL {_OVERLAP} SECOND, {which}", "asking for the time"
        )
        return (moment or b"").decode(), (server or b"").decode()
