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
    return bool(_DROPS_ALL.match(statement)) or _names(statement, table)


def concerns_in(database: str, body: bytes, table: str) -> bool:
    """The same, if it is known in which database the table is: of the others' tables some may have its name."""
    statement = statement_of(body)
    if _DROPS_ALL.match(statement):
        return _names(statement, database)
    is_here = _default_database(body).casefold() == database.casefold() or _names(statement, database)
    return is_here and _names(statement, table)


def _default_database(body: bytes) -> str:
    at = 13 + int.from_bytes(body[11:13], "little")
    return body[at : at + body[8]].decode("utf-8", "replace")


def _names(statement: bytes, name: str) -> bool:
    word = rb"(?<![\w$])" + re.escape(name.encode()) + rb"(?![\w$])"
    return not name.isascii() or re.search(word, statement, re.IGNORECASE) is not None
