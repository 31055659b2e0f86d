"""The few connections of a worker, and the statements under way on them.

A statement is sent on one connection while the answer to an earlier one is still being worked on: the servers' threads
work side by side, and the answers wait in the sockets. That needs no thread of ours and no event loop.
"""

from __future__ import annotations

import threading
from weakref import WeakValueDictionary

from pipeline.config.settings import MasterData
from pipeline.master.mysql.connection import Connection, Means
from pipeline.master.mysql.pace import Pace
from pipeline.master.mysql.wire import Columns
from pipeline.master.port import ReadCount


class Pool:
    """`settings.connections` sessions, each opened when it is first needed, in the process that needs it."""

    def __init__(self, settings: MasterData, means: Means | None = None) -> None:
        means = means or Means()
        pace = Pace(settings.queries_per_second, means.clock, means.sleep)
        self._connections = [Connection(settings, pace, means) for _ in range(settings.connections)]
        self._under_way: dict[Connection, Request] = {}  # in the order in which they were sent

    @classmethod
    def shared(cls, settings: MasterData) -> Pool:
        """The one pool of this thread for these settings: a worker's dimensions share it, and so its caps hold."""
        pools: WeakValueDictionary[MasterData, Pool] = _HERE.__dict__.setdefault("pools", WeakValueDictionary())
        pool = pools.get(settings)
        if pool is None:
            pool = pools[settings] = cls(settings)
        return pool

    @property
    def size(self) -> int:
        return len(self._connections)

    @property
    def largest_statement(self) -> int:
        return self._connections[0].largest_statement

    def query(self, sql: str, purpose: str, count: ReadCount) -> Columns:
        return self.send(sql, purpose, count).answer()

    def send(self, sql: str, purpose: str, count: ReadCount) -> Request:
        """Let the server begin with a statement. If all connections are busy, the oldest's answer is received first."""
        connection = self._idle()
        self._under_way[connection] = request = Request(self, connection, purpose, count)
        try:
            connection.send(sql)
        except BaseException:
            request.abandon()
            raise
        return request

    def close(self) -> None:
        """End the sessions on which nothing is under way. A later read opens them again."""
        for connection in self._connections:
            if connection not in self._under_way:
                connection.close()

    def release(self, connection: Connection) -> None:
        self._under_way.pop(connection, None)

    def _idle(self) -> Connection:
        for connection in self._connections:
            if connection not in self._under_way:
                return connection
        connection, oldest = next(iter(self._under_way.items()))
        oldest.settle()
        return connection


class Request:
    """A statement under way."""

    def __init__(self, pool: Pool, connection: Connection, purpose: str, count: ReadCount) -> None:
        self._pool = pool
        self._connection = connection
        self._purpose = purpose
        self._count = count
        self._settled = False
        self._columns: Columns = []
        self._error: Exception | None = None

    def answer(self) -> Columns:
        """Wait for the answer, retrying what passes; what does not is raised here."""
        self.settle()
        if self._error is not None:
            raise self._error
        columns, self._columns = self._columns, []
        return columns

    def settle(self) -> None:
        """Receive the answer, and keep it until it is asked for."""
        if self._settled:
            return
        try:
            self._columns = self._connection.receive(self._purpose, self._count)
        except Exception as error:  # noqa: BLE001 raised by answer()
            self._error = error
        except BaseException:
            self._connection.close()
            raise
        finally:
            self._settled = True
            self._pool.release(self._connection)

    def abandon(self) -> None:
        """Do without the answer. The session ends with it, or the next statement would read this answer as its own."""
        if not self._settled:
            self._settled = True
            self._connection.close()
            self._pool.release(self._connection)


_HERE = threading.local()
