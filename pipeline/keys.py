"""Natural keys as one array: what the joins compare, byte for byte.

A single integer key stays `int64`; a single string or binary key is its bytes. A key of several columns is packed so
that two keys are equal when all their columns are: first a header of eight bytes a column (an integer's value, or the
length of a text), then the texts. A key with a null in any column is null.

>>> packed = pack([pa.array(["ale", "a", None]), pa.array([1, 2, 3])])
>>> packed.type, packed.null_count
(DataType(binary), 1)
>>> [column.to_pylist() for column in unpack(packed.drop_null(), ["string", "int64"])]
[['ale', 'a'], [1, 2]]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_SLOT = 8  # bytes of the header for each column


def pack(columns: Sequence[pa.Array]) -> pa.Array:
    """One key for each row of the natural key's columns (integers, strings or binaries).

    >>> pack([pa.array([7, None], pa.int32())]).to_pylist()
    [7, None]
    >>> pack([pa.array(["ale", "bière"])]).to_pylist()
    [b'ale', b'bi\\xc3\\xa8re']
    >>> pack([pa.array(["a", "ab"]), pa.array(["bc", "c"])]).unique().to_pylist() == ["abc"]
    False
    """
    columns = [_plain(column) for column in columns]
    if len(columns) == 1:
        return columns[0]
    header = np.empty((len(columns[0]), len(columns)), dtype="<i8")
    for slot, column in enumerate(columns):
        numbers = column if pa.types.is_integer(column.type) else pc.binary_length(column)
        header[:, slot] = np.asarray(pc.fill_null(numbers, 0))
    texts = [column for column in columns if not pa.types.is_integer(column.type)]
    packed = pc.binary_join_element_wise(_fixed_width(header), *texts, b"", null_handling="skip")
    missing = [np.asarray(column.is_null()) for column in columns if column.null_count]
    return pc.if_else(pa.array(np.logical_or.reduce(missing)), None, packed) if missing else packed


def unpack(keys: pa.Array, types: Sequence[str]) -> list[pa.Array]:
    """The natural key's columns again, by the types of the contract; `keys` must hold no null.

    >>> unpack(pa.array([7]), ["int64"])[0].to_pylist()
    [7]
    >>> unpack(pa.array([b"ale"]), ["string"])[0].to_pylist()
    ['ale']
    """
    if len(types) == 1:
        return [keys.view(pa.uint64()) if types[0] == "uint64" else keys.cast(ARROW[types[0]])]
    if not len(keys):
        return [pa.array([], ARROW[kind]) for kind in types]
    keys = keys.cast(pa.binary())
    offsets = np.frombuffer(keys.buffers()[1], np.int32, len(keys) + 1, keys.offset * 4).astype(np.int64)
    data = np.frombuffer(keys.buffers()[2] or b"", np.uint8)
    header_bytes = _SLOT * len(types)
    slots = data[offsets[:-1, None] + np.arange(header_bytes)].view("<i8")
    start = offsets[:-1] + header_bytes
    columns = []
    for slot, kind in zip(slots.T, types, strict=True):
        if kind in ("int64", "uint64"):
            columns.append(pa.array(np.ascontiguousarray(slot).view(kind)))
        else:
            columns.append(_ragged(data, start, slot).cast(ARROW[kind]))
            start = start + slot
    return columns


ARROW = {"int64": pa.int64(), "uint64": pa.uint64(), "string": pa.string(), "binary": pa.binary()}


def _plain(column: pa.Array) -> pa.Array:
    """Integers as int64, texts as their bytes: no copy where the type is right already.

    Unsigned ones keep their 64 bits, and are equal when these are. In a sale they are decimals, and one that does not
    fit has no master row: null.

    >>> from decimal import Decimal
    >>> sale = pa.array([Decimal(2**64 - 1), Decimal(7), Decimal(-1), Decimal(2**64), None], pa.decimal128(20, 0))
    >>> _plain(sale).to_pylist(), _plain(pa.array([2**64 - 1], pa.uint64())).to_pylist()
    ([-1, 7, None, None, None], [-1])
    """
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_decimal(column.type):
        halves = np.frombuffer(column.buffers()[1], "<i8", 2 * len(column), 16 * column.offset).reshape(-1, 2)
        fits = pa.array(halves[:, 1] == 0)
        return pc.if_else(pc.and_(fits, column.is_valid()), pa.array(np.ascontiguousarray(halves[:, 0])), None)
    if pa.types.is_uint64(column.type):
        return column.view(pa.int64())
    return column.cast(pa.int64() if pa.types.is_integer(column.type) else pa.binary())


def _fixed_width(header: npt.NDArray[np.int64]) -> pa.Array:
    """Each row of the header as a binary value."""
    offsets = np.arange(len(header) + 1, dtype=np.int32) * np.int32(header.shape[1] * _SLOT)
    return pa.Array.from_buffers(pa.binary(), len(header), [None, pa.py_buffer(offsets), pa.py_buffer(header)])


def _ragged(data: npt.NDArray[np.uint8], start: npt.NDArray[Any], length: npt.NDArray[Any]) -> pa.Array:
    """The pieces of `data` at `start`, one after the other, as binary values."""
    offsets = np.concatenate([[0], np.cumsum(length)])
    places = np.repeat(start - offsets[:-1], length) + np.arange(offsets[-1])
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data[places])]
    return pa.Array.from_buffers(pa.binary(), len(length), buffers)
