"""Columns of raw bytes to the port's columns: Arrow parses a whole column of text in one call."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline import keys
from pipeline.columns import UNKNOWN_MEMBER
from pipeline.config.contracts import DimensionContract
from pipeline.errors import BadContract
from pipeline.master.mysql.wire import Columns
from pipeline.master.port import KEY

# Texts stay the bytes they are: those are what the joins compare.
_KEY_TYPES = {"int64": pa.int64(), "uint64": pa.uint64(), "string": pa.binary(), "binary": pa.binary()}


def schema(dimension: DimensionContract) -> pa.Schema:
    """The port's columns for a dimension."""
    return pa.schema([pa.field(KEY, dimension.key_type), *dimension.columns])


def to_arrow(raw: Columns, dimension: DimensionContract) -> pa.Table:
    """The rows of a read, in the contract's order of columns: natural key, surrogate key, updated-at, attributes.

    Rows without a natural key are left out.
    """
    width = len(dimension.natural_key)
    natural = natural_key(raw[:width], dimension)
    key = keys.pack(natural)
    if key.null_count:
        there = key.is_valid()
        return to_arrow([column.filter(there) for column in raw], dimension)
    names = [dimension.surrogate_key, dimension.updated_at, *dimension.attributes]
    values = [
        parsed(column, field.type, f"{dimension.table}.{name}")
        for column, field, name in zip(raw[width:], dimension.columns, names, strict=True)
    ]
    _refuse_unusable(values[0], natural, dimension)
    return pa.Table.from_arrays([key, *values], schema=schema(dimension))


def natural_key(raw: Columns, dimension: DimensionContract) -> list[pa.Array]:
    return [
        parsed(column, _KEY_TYPES[part.type], f"{dimension.table}.{part.column}")
        for column, part in zip(raw, dimension.natural_key, strict=True)
    ]


def parsed(column: pa.ChunkedArray, kind: pa.DataType, name: str) -> pa.Array:
    """A column of the text protocol as its Arrow type.

    >>> moments = pa.chunked_array([pa.array([b"2026-11-18 10:00:00.5", None])])
    >>> parsed(moments, pa.timestamp("us", tz="UTC"), "t.c")[0].value
    1794996000500000
    >>> parsed(pa.chunked_array([pa.array([b"1", b"\\x00", None])]), pa.bool_(), "t.c").to_pylist()
    [True, False, None]
    """
    try:
        values = _parsed(column, kind)
    except pa.ArrowInvalid as error:
        raise BadContract(
            f"{name}: a value is no {kind} ({error}). Correct the row, or the type in the contract."
        ) from error
    return values.chunk(0) if values.num_chunks == 1 else values.combine_chunks()


def _parsed(raw: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if pa.types.is_binary(kind):
        return raw
    if pa.types.is_boolean(kind):
        # TINYINT comes as a digit, BIT(1) as the bit itself.
        false = pc.is_in(raw, value_set=pa.array([b"0", b"\x00", b""], pa.binary()))
        return pc.if_else(raw.is_null(), None, pc.invert(false))
    text = raw.cast(pa.string())
    if pa.types.is_temporal(kind):
        # MySQL's way of saying that there is no date.
        text = pc.if_else(pc.starts_with(text, "0000-00-00"), None, text)
    if pa.types.is_timestamp(kind):
        # The session's time zone is UTC.
        return text.cast(pa.timestamp("us")).cast(kind)
    return text.cast(kind)


def possible(packed: pa.Array, types: Sequence[str]) -> tuple[pa.Array, list[pa.Array]]:
    """The keys that some row can have, and their columns: a text column holds no bytes that are not UTF-8."""
    try:
        return packed, keys.unpack(packed, types)
    except pa.ArrowInvalid:
        packed = packed.filter(pa.array([_is_possible(packed[i : i + 1], types) for i in range(len(packed))]))
        return packed, keys.unpack(packed, types)


def _is_possible(key: pa.Array, types: Sequence[str]) -> bool:
    try:
        keys.unpack(key, types)
    except pa.ArrowInvalid:
        return False
    return True


def _refuse_unusable(surrogate_keys: pa.Array, natural: Sequence[pa.Array], dimension: DimensionContract) -> None:
    """A row without a surrogate key of its own must not pass for a sale's missing master row."""
    bad = pc.fill_null(pc.equal(surrogate_keys, UNKNOWN_MEMBER), True)
    if not pc.any(bad).as_py():
        return
    first = int(np.argmax(np.asarray(bad)))
    key = ", ".join(
        f"{part.column} = {_shown(values[first].as_py(), part.type)!r}"
        for part, values in zip(dimension.natural_key, natural, strict=True)
    )
    given = surrogate_keys[first].as_py()
    raise BadContract(
        f"{dimension.table}.{dimension.surrogate_key} is {'NULL' if given is None else given} where {key}. "
        f"It must be a number other than {UNKNOWN_MEMBER}, which means that a sale has no master row. Correct that row."
    )


def _shown(value: int | bytes, kind: str) -> int | bytes | str:
    return value.decode(errors="replace") if isinstance(value, bytes) and kind == "string" else value
