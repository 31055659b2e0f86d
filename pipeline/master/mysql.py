"""A master table in MySQL or MariaDB, read over its unique index."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.contracts import DimensionContract
from pipeline.errors import BadContract, MasterReadFailed
from pipeline.keys import unpack
from pipeline.master import drivers, rows
from pipeline.master.catalogue import Catalogue, notes
from pipeline.master.connection import Connection
from pipeline.master.drivers import Address, Driver
from pipeline.master.port import KEY, MasterStatistics, Reads
from pipeline.master.sql import Statements, text
from pipeline.settings import MasterData

_COUNTED_EXACTLY = 1_000_000  # rows up to which COUNT(*) costs the server well under a second
_SAMPLE = 1_000  # rows whose width stands for all


class MySqlMaster:
    """The port over one table of a server. Opens its connection at the first read, in the process that reads.

    Two keys are equal when their bytes are. The server may think otherwise (case, accents, trailing spaces), and then
    returns more rows than were asked for; those are dropped here. It cannot return fewer.
    """

    def __init__(
        self,
        settings: MasterData,
        dimension: DimensionContract,
        connect: Callable[[Address], Driver] = drivers.connect,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.reads = Reads()
        self._dimension = dimension
        self._clock = clock
        self._connection = Connection(settings, connect, clock, sleep)
        self._types = [part.type for part in dimension.natural_key]
        self._schema = rows.schema(dimension)
        self._known: Statements | None = None

    @property
    def key_type(self) -> pa.DataType:
        return self._dimension.key_type

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def lookup(self, keys: pa.Array) -> pa.Table:
        """One query, unless its text would exceed the server's `max_allowed_packet`."""
        keys, columns = self._possible(keys)
        if not len(keys):
            return self._schema.empty_table()
        statement = self._statements().lookup(columns)
        if len(statement) > self._connection.largest_statement and len(keys) > 1:
            half = len(keys) // 2
            return pa.concat_tables([self.lookup(keys.slice(0, half)), self.lookup(keys.slice(half))]).combine_chunks()
        answer = self._read("lookup", statement)
        asked_for = pc.is_in(answer[KEY], value_set=keys)
        return answer if pc.all(asked_for).as_py() is not False else answer.filter(asked_for)

    def page(self, after: Any | None, rows: int) -> pa.Table:
        key = None if after is None else self._columns(pa.array([after], self.key_type))
        return self._read("page", self._statements().page(key, rows, inclusive=False))

    def page_at(self, key: Any, rows: int) -> pa.Table:
        columns = self._columns(pa.array([key], self.key_type))
        return self._read("page", self._statements().page(columns, rows, inclusive=True))

    def statistics(self) -> MasterStatistics:
        """Exact for tables of up to a million rows; the server's own estimate beyond, which a count would read whole.

        The width is that of the first rows in the order of the key, or of the narrowest possible row of an empty table.
        """
        table = self._dimension.table
        sample = self.page(None, _SAMPLE)
        [(estimate,)] = self._describe(
            "SELECT TABLE_ROWS FROM information_schema.TABLES "
            f"WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = {text(table)}",
            f"estimating the rows of {table}",
        )
        number = int(estimate or 0)
        if len(sample) < _SAMPLE:
            number = len(sample)
        elif number <= _COUNTED_EXACTLY:
            [(counted,)] = self._describe(self._statements().count(), f"counting the rows of {table}")
            number = int(counted or 0)
        width = sample.nbytes / len(sample) if len(sample) else 8.0 * len(self._schema)
        return MasterStatistics(number, width)

    def verify(self) -> list[str]:
        """Compare the table with the contract: fails with every violation, returns what is worth knowing."""
        catalogue = Catalogue.read(self._describe, self._dimension.table)
        self._known = catalogue.statements(self._dimension)
        return notes(catalogue, self._dimension)

    def close(self) -> None:
        self._connection.close()

    def _statements(self) -> Statements:
        if self._known is None:
            self.verify()
        assert self._known is not None
        return self._known

    def _columns(self, keys: pa.Array) -> list[pa.Array]:
        return unpack(keys, self._types)

    def _possible(self, keys: pa.Array) -> tuple[pa.Array, list[pa.Array]]:
        """The keys that some row can have, and their columns: a text column holds no bytes that are not UTF-8."""
        try:
            return keys, self._columns(keys)
        except pa.ArrowInvalid:
            keys = keys.filter(pa.array([self._is_possible(keys.slice(i, 1)) for i in range(len(keys))]))
            return keys, self._columns(keys)

    def _is_possible(self, key: pa.Array) -> bool:
        try:
            self._columns(key)
        except pa.ArrowInvalid:
            return False
        return True

    def _describe(self, statement: str, purpose: str) -> Sequence[drivers.Row]:
        return self._connection.query(statement, purpose, self.reads.by_kind["describe"])

    def _read(self, kind: str, statement: str) -> pa.Table:
        started = self._clock()
        count = self.reads.by_kind[kind]
        try:
            raw = self._connection.query(statement, f"{kind} in {self._dimension.table}", count)
            answer = rows.to_arrow(raw, self._dimension)
        except (MasterReadFailed, BadContract):
            self._known = None  # the table may have changed; ask again next time
            raise
        finally:
            count.seconds += self._clock() - started
        count.queries += 1
        count.rows += len(answer)
        count.bytes += answer.nbytes
        return answer
