"""What a database server counts itself while others ask it, sampled so often that every second can be looked at."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Any

from pipeline.laptop.stack.stack import Stack

_STATUS = "SHOW GLOBAL STATUS WHERE Variable_name IN ('Questions', 'Rows_sent')"
_OF_MYSQL = "SELECT SUM(SUM_ROWS_SENT) FROM performance_schema.events_statements_summary_global_by_event_name"


@dataclass(frozen=True)
class Seen:
    """The server counted this at some moment from `asked` to `answered`; the sampler's own is taken off."""

    asked: float
    answered: float
    statements: int
    rows: int
    sessions: int


class ServerLoad:
    """Samples the counters of the stack's server, where nobody else asks, and sessions with one of its databases."""

    def __init__(self, stack: Stack, name: str) -> None:
        self.seen: list[Seen] = []
        self._stack, self._name = stack, name
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> ServerLoad:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(10)

    def _sample(self) -> None:
        own_statements = own_rows = 0

        def ask(cursor: Any, statement: str) -> list[Any]:
            nonlocal own_statements, own_rows
            cursor.execute(statement)
            rows = list(cursor.fetchall())
            own_statements, own_rows = own_statements + 1, own_rows + len(rows)
            return rows

        with self._stack.database.connect("admin") as connection, connection.cursor() as cursor:
            while not self._over.wait(0.01):
                asked, before = time.monotonic(), (own_statements, own_rows)
                status = dict(ask(cursor, _STATUS))
                rows = status.get("Rows_sent") or ask(cursor, _OF_MYSQL)[0][0]
                answered = time.monotonic()
                there = [row for row in ask(cursor, "SHOW PROCESSLIST") if row[3] == self._name]
                own = before[0] + 1, before[1]
                self.seen.append(
                    Seen(asked, answered, int(status["Questions"]) - own[0], int(rows) - own[1], len(there))
                )

    def most_in_a_second(self) -> tuple[int, int]:
        """The most statements and rows between two samples that together took no longer than a second."""
        statements = rows = first = 0
        for last in self.seen:
            while last.answered - self.seen[first].asked > 1.0:
                first += 1
            statements = max(statements, last.statements - self.seen[first].statements)
            rows = max(rows, last.rows - self.seen[first].rows)
        return statements, rows

    @property
    def most_sessions(self) -> int:
        return max(seen.sessions for seen in self.seen)
