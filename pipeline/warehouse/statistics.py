"""A file's statistics for Delta's log, from what the Parquet writer counts anyway: no second look at most columns.

A bound may be loose but never wrong: a reader skips the file by it. Where none can be given, none is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

INDEXED_COLUMNS = 32  # delta.dataSkippingNumIndexedCols when a table does not say otherwise
LONGEST_STRING = 32  # characters, as Delta on Spark cuts them

Bound = Callable[[Any], "Any | None"]  # from Parquet's raw value to JSON; None: no bound


class FloatingColumns:
    """The statistics of floating columns, which must not be written into a Parquet file that Spark will read.

    pyarrow leaves NaN out of the bounds, where Spark ranks it above all numbers, and the bounds know two zeros where
    Spark knows one: Spark skipped row groups and a filter lost rows. Dictionaries mislead it likewise.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.names = [column.name for column in schema if pa.types.is_floating(column.type)]
        self.nulls = dict.fromkeys(self.names, 0)
        self.bounds: dict[str, tuple[float, float] | None] = dict.fromkeys(self.names, (math.inf, -math.inf))

    def add(self, rows: pa.Table) -> None:
        for name in self.names:
            values = rows[name]
            self.nulls[name] += values.null_count
            known = self.bounds[name]
            if known is None or pc.any(pc.is_nan(values)).as_py():
                self.bounds[name] = None  # a reader may rank NaN anywhere
            elif values.null_count < len(values):
                found = pc.min_max(values).as_py()
                self.bounds[name] = min(known[0], found["min"]), max(known[1], found["max"])


def of_file(metadata: Any, schema: pa.Schema, floating: FloatingColumns) -> str:
    """The `stats` of an add action.

    `metadata` is the file's `pyarrow.parquet.FileMetaData`, `schema` that of its columns.
    """
    lower: dict[str, Any] = {}
    upper: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for index, column in enumerate(list(schema)[:INDEXED_COLUMNS]):
        if column.name in floating.nulls:
            nulls[column.name], raw = floating.nulls[column.name], floating.bounds[column.name]
        else:
            chunks = [metadata.row_group(group).column(index).statistics for group in range(metadata.num_row_groups)]
            nulls[column.name], raw = sum(chunk.null_count for chunk in chunks), _raw_bounds(chunks, column.type)
        if raw is None:
            continue
        for bounds, as_json, value in zip((lower, upper), _bounds_of(column.type), raw, strict=True):
            if (bound := as_json(value)) is not None:
                bounds[column.name] = bound
    found = {"numRecords": metadata.num_rows, "minValues": lower, "maxValues": upper, "nullCount": nulls}
    return msgspec.json.encode(found).decode()


def _raw_bounds(chunks: list[Any], kind: pa.DataType) -> tuple[Any, Any] | None:
    """Over all row groups; None if one has values without bounds (Parquet gives none for very long strings)."""
    chunks = [chunk for chunk in chunks if chunk.num_values]
    if not chunks or not all(chunk.has_min_max for chunk in chunks):
        return None
    lowest, highest = [chunk.min_raw for chunk in chunks], [chunk.max_raw for chunk in chunks]
    if pa.types.is_decimal(kind) and isinstance(lowest[0], bytes):  # as bytes, -1 would be above 0
        lowest, highest = ([int.from_bytes(raw, "big", signed=True) for raw in side] for side in (lowest, highest))
    return min(lowest), max(highest)


def _bounds_of(kind: pa.DataType) -> tuple[Bound, Bound]:
    """How a type's lower and its upper bound are written."""
    if pa.types.is_string(kind):
        return _string_below, _string_above
    if pa.types.is_timestamp(kind):
        return (lambda micros: _instant(micros // 1000)), (lambda micros: _instant(-(-micros // 1000)))
    if pa.types.is_decimal(kind):
        return (lambda unscaled: _decimal(unscaled, kind.scale),) * 2
    if pa.types.is_date(kind):
        return _day, _day
    if pa.types.is_floating(kind):
        return _number, _number
    if pa.types.is_integer(kind):
        return int, int
    return _nothing, _nothing  # binary and boolean, as in Delta on Spark


def _nothing(_: Any) -> None:
    return None


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _day(days: int) -> str | None:
    """A day that Python and so every reader can name."""
    try:
        return (date(1970, 1, 1) + timedelta(days=days)).isoformat()
    except OverflowError:
        return None


def _instant(millis: int) -> str | None:
    """Delta's statistics end at milliseconds: that is why bounds are rounded outwards."""
    try:
        instant = datetime(1970, 1, 1) + timedelta(milliseconds=millis)
    except OverflowError:
        return None
    return f"{instant.isoformat(timespec='milliseconds')}Z"


def _decimal(unscaled: int, scale: int) -> msgspec.Raw:
    """A JSON number digit by digit: through a float it would lose some.

    >>> bytes(_decimal(-5, 2)), bytes(_decimal(1234567890123456789, 4)), bytes(_decimal(7, 0))
    (b'-0.05', b'123456789012345.6789', b'7')
    """
    digits = str(abs(unscaled)).rjust(scale + 1, "0")
    text = f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits
    return msgspec.Raw(f"{'-' if unscaled < 0 else ''}{text}".encode())


def _string_below(raw: bytes) -> str:
    return raw.decode()[:LONGEST_STRING]


def _string_above(raw: bytes) -> str | None:
    """A short text that no string with this beginning exceeds, in the order of code points (which is that of UTF-8).

    >>> _string_above(b"short"), _string_above(("x" * 31 + "yz").encode()) == "x" * 31 + "z"
    ('short', True)
    """
    text = raw.decode()
    if len(text) <= LONGEST_STRING:
        return text
    text = text[:LONGEST_STRING].rstrip("\U0010ffff")  # the last code point has no successor
    if not text:
        return None
    following = ord(text[-1]) + 1
    return text[:-1] + chr(0xE000 if following == 0xD800 else following)  # surrogates are no characters
