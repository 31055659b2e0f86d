"""The few connections of a worker, and the statements under way on them.

A statement is sent on one connection while the answer to an earlier one is still being worked on: the servers' threads
work side by side, and the answers wait in the sockets. That needs no thread of ours and no event loop.
"""

from __future__ import annotations

import math
import threading
from weakref import WeakValueDictionary

from pipeline.config.settings import MasterData
from pipeline.master.mysql.allowance import Allowance, Taken
from pipeline.master.mysql.connection import Connection, Means
from pipeline.master.mysql.wire import Columns
from pipeline.master.port import ReadCount
from pipeline.master.share import Contract, Share, Used


class Pool:
    """The sessions of a share, each opened when it is first needed, in the process that needs it. Before it is dealt
    a share, a pool has the whole contract: nobody else of the job asks anything then."""

    def __init__(self, settings: MasterData, means: Means | None = None) -> None:
        self._settings, self._means = settings, means or Means()
        share = Contract.of(settings).alone()
        self._allowance = Allowance(share, self._means.clock)
        self._connections: list[Connection] = []
        self._under_way: dict[Connection, Request] = {}  # in the order in which they were sent
        self.waited = 0.0  # seconds, for the contract
        self._resize(share.connections)

    @classmethod
    def shared(cls, settings: MasterData) -> Pool:
        """The one pool of this thread for these settings: a worker's dimensions share it, and so its caps hold."""
        pools: WeakValueDictionary[MasterData, Pool] = _HERE.__dict__.setdefault("pools", WeakValueDictionary())
        pool = pools.get(settings)
        if pool is None:
            pool = pools[settings] = cls(settings)
        return pool

    def begin(self, share: Share) -> None:
        """From now on what this share allows."""
        self._settle_all()
        self._allowance.begin(share)
        self._resize(share.connections)

    def end(self) -> list[Used]:
        """The task has ended: close what may not stay open, and tell what still counts of what was asked."""
        self._settle_all()
        self._resize(self._allowance.share.kept)
        return self._allowance.used()

    @property
    def sessions(self) -> int:
        """That are open: none was closed since the share was dealt, but to be opened anew."""
        return sum(connection.is_open for connection in self._connections)

    def abandon(self) -> None:
        """The task has failed: nobody will ask for the answers that are under way."""
        for request in list(self._under_way.values()):
            request.abandon()

    @property
    def largest_statement(self) -> int:
        return self._connections[0].largest_statement

    @property
    def largest_read(self) -> int:
        """Rows that a statement may bring."""
        return self._allowance.share.largest_read

    def query(self, sql: str, purpose: str, count: ReadCount, rows: int = 0) -> Columns:
        return self.send(sql, purpose, count, rows).answer()

    def send(self, sql: str, purpose: str, count: ReadCount, rows: int = 0) -> Request:
        """Let the server begin with a statement that brings at most so many rows (0: not known, and few).

        If all connections are busy, or the contract has room for no more, the oldest's answer is received first.
        """
        connection = self._idle()
        self._under_way[connection] = request = Request(self, connection, purpose, count)
        try:
            with request:
                connection.send(sql, rows)
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

    def _allow(self, rows: int) -> Taken:
        """Wait until the contract has room for a statement with so many rows."""
        began = self._means.clock()
        while early := self._allowance.early(rows):
            if early < math.inf:
                self._means.sleep(early)
            else:
                next(request for request in self._under_way.values() if not request.is_in_hand).settle()
        self.waited += self._means.clock() - began
        return self._allowance.take(rows)

    def _settle_all(self) -> None:
        for request in list(self._under_way.values()):
            request.settle()

    def _resize(self, connections: int) -> None:
        """One object stays, though its session ends: it knows the longest statement."""
        for connection in self._connections[connections:]:
            connection.close()
        del self._connections[max(1, connections) :]
        while len(self._connections) < connections:
            self._connections.append(Connection(self._settings, self._allow, self._means))

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
        self.is_in_hand = False  # it is being sent, or its answer received: nobody else may do that

    def __enter__(self) -> None:
        self.is_in_hand = True

    def __exit__(self, *_: object) -> None:
        self.is_in_hand = False

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
            with self:
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
