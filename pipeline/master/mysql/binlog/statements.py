"""Statements in the log: what they may have done to a table, and where a transaction ends."""

from __future__ import annotations

import re
from contextlib import suppress

from pipeline.master.mysql.binlog import events
from pipeline.master.mysql.binlog.events import Event

BRACKETS = (b"BEGIN", b"COMMIT", b"ROLLBACK", b"SAVEPOINT")  # around rows
_INSIDE = (b"BEGIN", b"SAVEPOINT", b"ROLLBACK TO", b"XA START", b"XA END")
_DROPS_ALL = re.compile(rb"DROP\s+(DATABASE|SCHEMA)\b", re.IGNORECASE)


def statement_of(body: bytes) -> bytes:
    """Behind the header, the status variables, and the name of the database."""
    database, variables = body[8], int.from_bytes(body[11:13], "little")
    with suppress(IndexError):
        return body[13 + variables + database + 1 :].lstrip()
    return b""


def ends_transaction(event: Event) -> bool:
    if event.kind == events.QUERY:
        return not statement_of(event.body).startswith(_INSIDE)
    return event.kind in (events.XID, events.XA_PREPARE, events.PAYLOAD)


def concerns(statement: bytes, table: str) -> bool:
    """Whether a statement may be about a table: in which character set it names others than ASCII is not known.

    >>> concerns(b"ALTER TABLE `Product` ADD x INT", "product"), concerns(b"DROP TABLE by_product", "product")
    (True, False)
    >>> concerns(b"drop database shop", "product")
    True
    """
    if _DROPS_ALL.match(statement) or not table.isascii():
        return True
    word = rb"(?<![\w$])" + re.escape(table.encode()) + rb"(?![\w$])"
    return re.search(word, statement, re.IGNORECASE) is not None
