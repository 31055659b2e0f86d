"""What the log says of a table before its rows: its name, and how each column's values are written."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from pipeline.master.mysql.binlog.events import length_coded

TINY, SHORT, LONG, LONGLONG, INT24, STRING, VARCHAR = 1, 2, 3, 8, 9, 254, 15
INTEGERS, TEXTS = {TINY, SHORT, INT24, LONG, LONGLONG}, {STRING, VARCHAR, 253}

_NO_SIZE = 6  # NULL
# Bytes of a value: of those that are always the same, and of those with decimals of a second behind them.
_FIXED = {TINY: 1, SHORT: 2, INT24: 3, LONG: 4, LONGLONG: 8, 13: 1, 10: 3, 14: 3, 11: 3, 12: 8, 7: 4, _NO_SIZE: 0}
_WITH_FRACTION = {17: 4, 18: 5, 19: 3}  # TIMESTAMP2, DATETIME2, TIME2
_FLOATING = {4, 5}
_LONG_ONES = {140, 242, 245, 249, 250, 251, 252, 255}  # BLOB, JSON, GEOMETRY, VECTOR; MariaDB's compressed BLOB
_BIT, _DECIMAL, _VARYING, _ENUM, _SET = 16, 246, {VARCHAR, 253, 141}, 247, 248
_DIGITS = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)  # bytes for so many digits of a decimal


@dataclass(frozen=True)
class LoggedColumn:
    kind: int
    size: int  # bytes of a value, if all are alike; else those of the length before it
    varies: bool


@dataclass(frozen=True)
class LoggedTable:
    database: str
    name: str
    columns: tuple[LoggedColumn, ...]  # none, if one has a type that came with a later server: rows cannot be read then


def table_number(body: bytes) -> int:
    """By which number the rows that follow name the table."""
    return int.from_bytes(body[:6], "little")


def logged_table(body: bytes) -> LoggedTable:
    database, at = _name(body, 8)
    name, at = _name(body, at)
    count, at = length_coded(body, at)
    kinds, at = body[at : at + count], at + count
    size, at = length_coded(body, at)
    if at + size > len(body):
        raise IndexError("the description of a table is cut off")
    return LoggedTable(database, name, _columns(kinds, body[at : at + size]))


def _name(body: bytes, at: int) -> tuple[str, int]:
    length = body[at]
    return body[at + 1 : at + 1 + length].decode("utf-8", "replace"), at + length + 2


def _columns(kinds: bytes, about: bytes) -> tuple[LoggedColumn, ...]:
    columns, at = [], 0
    for kind in kinds:
        if kind in _FIXED:
            columns.append(LoggedColumn(kind, _FIXED[kind], varies=False))
        elif kind in _WITH_FRACTION:
            columns.append(LoggedColumn(kind, _WITH_FRACTION[kind] + (about[at] + 1) // 2, varies=False))
            at += 1
        elif kind in _FLOATING:
            columns.append(LoggedColumn(kind, about[at], varies=False))
            at += 1
        elif kind in _LONG_ONES:
            columns.append(LoggedColumn(kind, about[at], varies=True))
            at += 1
        elif kind == _BIT:
            columns.append(LoggedColumn(kind, about[at + 1] + (about[at] > 0), varies=False))
            at += 2
        elif kind == _DECIMAL:
            columns.append(LoggedColumn(kind, decimal_bytes(about[at], about[at + 1]), varies=False))
            at += 2
        elif kind in _VARYING:
            [longest] = struct.unpack_from("<H", about, at)
            columns.append(LoggedColumn(kind, 1 if longest < 256 else 2, varies=True))
            at += 2
        elif kind == STRING:
            columns.append(_string(about[at], about[at + 1]))
            at += 2
        else:
            return ()
    return tuple(columns)


def _string(first: int, second: int) -> LoggedColumn:
    """CHAR, BINARY, and what hides behind them. A long CHAR lends two bits of its type for its length."""
    if first in (_ENUM, _SET):
        return LoggedColumn(first, second, varies=False)
    longest = (((first & 0x30) ^ 0x30) << 4) | second
    return LoggedColumn(STRING, 1 if longest < 256 else 2, varies=True)


def decimal_bytes(digits: int, decimals: int) -> int:
    """
    >>> decimal_bytes(10, 2), decimal_bytes(18, 9)
    (5, 8)
    """
    whole = digits - decimals
    return sum(4 * (part // 9) + _DIGITS[part % 9] for part in (whole, decimals))
