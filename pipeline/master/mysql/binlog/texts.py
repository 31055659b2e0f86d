"""Values of the log as the texts that a SELECT would give, so that both are read as the contract's types in one way."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from datetime import datetime, timezone
from typing import NamedTuple

import pyarrow as pa

from pipeline.master.mysql.binlog.charsets import as_utf8
from pipeline.master.mysql.binlog.tables import INTEGERS as LOGGED_INTEGERS
from pipeline.master.mysql.binlog.tables import TEXTS as LOGGED_TEXTS
from pipeline.master.mysql.binlog.tables import decimal_bytes
from pipeline.master.mysql.catalogue import INTEGERS, Column

Text = Callable[[bytes], bytes]

_DOUBLE, _BIT, _ENUM, _SET, _DECIMAL, _BLOB = 5, 16, 247, 248, 246, 252
_DATES, _TIMESTAMP, _DATETIME = {10, 14}, 17, 18
_TEXT_TYPES = {"tinytext", "text", "mediumtext", "longtext"}
_BLOB_TYPES = {"tinyblob", "blob", "mediumblob", "longblob"}


class Reading(NamedTuple):
    """How a column's values are read."""

    kinds: frozenset[int]  # the log's types that it may have
    text: Text


def reading_of(column: Column, wanted: pa.DataType) -> Reading | None:
    """None: the log does not tell this column as a SELECT would. FLOAT has no exact text, JSON none in the log."""
    kind, declared = column.data_type, column.column_type.lower()
    if "zerofill" in declared or "compressed" in declared:
        return None
    if kind in INTEGERS:
        signed = "unsigned" not in declared
        return _reading(LOGGED_INTEGERS, lambda value: b"%d" % int.from_bytes(value, "little", signed=signed))
    if kind in ("char", "varchar"):
        return _texts(LOGGED_TEXTS, column)
    if kind in _TEXT_TYPES:
        return _texts({_BLOB}, column)
    if kind in ("enum", "set"):
        return _named(column)
    if kind == "binary":
        width = sum(_numbers(declared)) or 1
        return _reading(LOGGED_TEXTS, lambda value: value.ljust(width, b"\0"))  # the log leaves out zeros at the end
    if kind == "varbinary" or kind in _BLOB_TYPES:
        return _reading(LOGGED_TEXTS if kind == "varbinary" else {_BLOB}, lambda value: value)
    if kind == "decimal":
        digits, decimals = _numbers(declared)
        return _reading({_DECIMAL}, lambda value: _decimal(value, digits, decimals))
    if kind == "double" and pa.types.is_floating(wanted):
        return _reading({_DOUBLE}, lambda value: repr(struct.unpack("<d", value)[0]).encode())
    return _of_time(kind, sum(_numbers(declared))) or (_reading({_BIT}, lambda value: value) if kind == "bit" else None)


def _of_time(kind: str, decimals: int) -> Reading | None:
    if kind == "date":
        return _reading(_DATES, _date)
    if kind == "datetime":
        return _reading({_DATETIME}, lambda value: _datetime(value, decimals))
    if kind == "timestamp":
        return _reading({_TIMESTAMP}, lambda value: _timestamp(value, decimals))
    return None


def _reading(kinds: set[int], text: Text) -> Reading:
    return Reading(frozenset(kinds), text)


def _texts(kinds: set[int], column: Column) -> Reading | None:
    text = as_utf8(column.character_set)
    return _reading(kinds, text) if text else None


def _named(column: Column) -> Reading:
    """ENUM and SET are numbers in the log."""
    names = [name.replace("''", "'").encode() for name in re.findall(r"'((?:[^']|'')*)'", column.column_type)]
    if column.data_type == "enum":
        return _reading({_ENUM}, lambda value: [b"", *names][int.from_bytes(value, "little")])

    def joined(value: bytes) -> bytes:
        bits = int.from_bytes(value, "little")
        return b",".join(name for place, name in enumerate(names) if bits >> place & 1)

    return _reading({_SET}, joined)


def _numbers(declared: str) -> list[int]:
    """
    >>> _numbers("decimal(12,2) unsigned"), _numbers("datetime")
    ([12, 2], [])
    """
    found = re.search(r"\(([\d,]+)\)", declared)
    return [int(number) for number in found[1].split(",")] if found else []


def _decimal(value: bytes, digits: int, decimals: int) -> bytes:
    """Groups of nine digits in four bytes each; the first bit is the sign, and a negative number has all bits turned.

    >>> _decimal(bytes.fromhex("810DFB38D2 04D2".replace(" ", "")), 14, 4)
    b'1234567890.1234'
    >>> _decimal(bytes.fromhex("7EF204C72DFB2D"), 14, 4)
    b'-1234567890.1234'
    """
    is_negative = not value[0] & 0x80
    turned = bytes(byte ^ 0xFF for byte in value) if is_negative else value
    plain = bytes([turned[0] ^ 0x80]) + turned[1:]
    whole, at = digits - decimals, 0
    text = ""
    for group in [whole % 9, *[9] * (whole // 9)]:
        width = decimal_bytes(group, 0)
        text, at = text + f"{int.from_bytes(plain[at : at + width], 'big'):0{group}d}" * (group > 0), at + width
    number = text.lstrip("0") or "0"
    text = ""
    for group in [*[9] * (decimals // 9), decimals % 9]:
        width = decimal_bytes(group, 0)
        text, at = text + f"{int.from_bytes(plain[at : at + width], 'big'):0{group}d}" * (group > 0), at + width
    return f"{'-' if is_negative else ''}{number}{'.' if decimals else ''}{text}".encode()


def _date(value: bytes) -> bytes:
    number = int.from_bytes(value, "little")
    return b"%04d-%02d-%02d" % (number >> 9, number >> 5 & 15, number & 31)


def _datetime(value: bytes, decimals: int) -> bytes:
    number = int.from_bytes(value[:5], "big") - 0x8000000000
    months, days = divmod(number >> 22, 13), number >> 17 & 31
    hours, minutes, seconds = number >> 12 & 31, number >> 6 & 63, number & 63
    said = b"%04d-%02d-%02d %02d:%02d:%02d" % (*months, days, hours, minutes, seconds)
    return said + _fraction(value[5:], decimals)


def _timestamp(value: bytes, decimals: int) -> bytes:
    seconds = int.from_bytes(value[:4], "big")
    said = datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%d %H:%M:%S") if seconds else _NO_TIME
    return said.encode() + _fraction(value[4:], decimals)


_NO_TIME = "0000-00-00 00:00:00"


def _fraction(value: bytes, decimals: int) -> bytes:
    """Two digits a byte.

    >>> _fraction(b"\\x09\\xc4", 3), _fraction(b"", 0)
    (b'.250', b'')
    """
    return b".%0*d" % (decimals, int.from_bytes(value, "big") // (10 if decimals % 2 else 1)) if decimals else b""
