"""The reads of one master table: asked of the pool, counted by kind, decoded by the contract."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyarrow as pa

from pipeline.config.contracts import DimensionContract
from pipeline.errors import BadContract, MasterReadFailed
from pipeline.master.mysql import rows
from pipeline.master.mysql.drivers import Row, as_rows
from pipeline.master.mysql.pool import Pool, Request
from pipeline.master.mysql.wire import Columns
from pipeline.master.port import ReadCount, Reads


class Reader:
    """Every read goes through here, so that its count, its time and its purpose are right."""

    def __init__(self, pool: Pool, dimension: DimensionContract, clock: Callable[[], float]) -> None:
        self.reads = Reads()
        self.pool = pool
        self.doubtful = False  # a read has failed for good: the table may not be any more what it was
        self._dimension = dimension
        self._clock = clock

    def describe(self, statement: str, purpose: str) -> list[Row]:
        """What is said about the table, not read from it."""
        return as_rows(self.pool.query(statement, purpose, self.reads.by_kind["describe"]))

    def read(self, kind: str, statement: str, rows: int = 0) -> Columns:
        return self.receive(kind, self.send(kind, statement, rows))

    def send(self, kind: str, statement: str, rows: int) -> Request:
        """`rows`: the most that it brings."""
        with self._timed(kind) as count:
            return self.pool.send(statement, f"{kind} in {self._dimension.table}", count, rows)

    def receive(self, kind: str, request: Request) -> Columns:
        with self._timed(kind) as count:
            raw = request.answer()
            count.queries += 1
            count.rows += len(raw[0])
            return raw

    def decode(self, kind: str, raw: Columns) -> pa.Table:
        with self._timed(kind) as count:
            answer = rows.to_arrow(raw, self._dimension)
            count.bytes += answer.nbytes
            return answer

    @contextmanager
    def _timed(self, kind: str) -> Iterator[ReadCount]:
        """Counts the time that the caller waits; what the server does meanwhile is not seen from here."""
        started, waited = self._clock(), self.pool.waited
        count = self.reads.by_kind[kind]
        try:
            yield count
        except (MasterReadFailed, BadContract):
            self.doubtful = True
            raise
        finally:
            count.seconds += self._clock() - started
            count.waited += self.pool.waited - waited
