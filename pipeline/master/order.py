"""Keys as numpy values that sort nearly as an index does, so that borders can be bisected without asking the server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

PREFIX = 32  # bytes of a key that count
_INTEGER = 8


@dataclass(frozen=True)
class Collation:
    """How an index sorts texts, as far as single bytes tell it."""

    ranks: npt.NDArray[np.uint8]  # of each byte; 0 belongs to the padding
    folds_accents: bool = False

    @classmethod
    def weighed(cls, weights: Sequence[bytes | None], folds_accents: bool) -> Collation:
        """From the weights a server gives the 128 ASCII characters; other bytes keep their order, behind those.

        >>> like_general_ci = [bytes([code]).upper() for code in range(128)]
        >>> Collation.weighed(like_general_ci, folds_accents=True).ranks[list(b"AaB")].tolist()
        [65, 65, 66]
        """
        _, ranks = np.unique(np.array([weight or b"" for weight in weights], object), return_inverse=True)
        return cls(np.concatenate([ranks, np.arange(128, 256)]).astype(np.uint8), folds_accents)


BYTES = Collation(np.arange(256, dtype=np.uint8))
WITHOUT_CASE = Collation(np.frombuffer(bytes(range(256)).lower(), np.uint8))


def of_integers(keys: pa.Array) -> npt.NDArray[Any]:
    """Integers are their own order.

    >>> of_integers(pa.array([3, -1]))
    array([ 3, -1])
    """
    return np.asarray(keys)


def of_columns(columns: Sequence[pa.Array], collations: Sequence[Collation]) -> npt.NDArray[np.bytes_]:
    """Keys of one or more columns, given in the index's order, as text of one fixed width.

    Integers are big-endian with their sign flipped, texts are cut, padded and weighed byte by byte.

    >>> of_columns([pa.array([b"Bun", b"ale"])], [WITHOUT_CASE])
    array([b'bun', b'ale'], dtype='|S32')
    >>> np.argsort(of_columns([pa.array([1, -1, 1]), pa.array([b"b", b"z", b"a"])], [BYTES, BYTES])).tolist()
    [1, 2, 0]
    """
    if not len(columns[0]):
        return np.empty(0, f"S{PREFIX}")
    integers = sum(pa.types.is_integer(column.type) for column in columns)
    width = max(_INTEGER, (PREFIX - _INTEGER * integers) // max(1, len(columns) - integers))
    parts = [
        _big_endian(column) if pa.types.is_integer(column.type) else collation.ranks[_cut(column, width, collation)]
        for column, collation in zip(columns, collations, strict=True)
    ]
    matrix = np.concatenate(parts, axis=1) if len(parts) > 1 else np.ascontiguousarray(parts[0])
    fixed: npt.NDArray[Any] = matrix.view(f"S{matrix.shape[1]}").reshape(-1)
    return fixed


def _big_endian(column: pa.Array) -> npt.NDArray[np.uint8]:
    unsigned = pa.types.is_uint64(column.type)
    flipped = np.asarray(column).view(np.uint64) ^ np.uint64(0 if unsigned else 1 << 63)
    return flipped.astype(">u8").view(np.uint8).reshape(-1, _INTEGER)


def _cut(column: pa.Array, width: int, collation: Collation) -> npt.NDArray[np.uint8]:
    """The first bytes of each text, padded with zeros: three array operations whatever the number of keys."""
    padding = pa.scalar(bytes(width), pa.binary())
    short = pc.binary_slice(column.cast(pa.binary()), 0, 4 * width)  # a letter is four bytes at most
    if collation.folds_accents:
        short = _without_accents(short)
    padded = pc.binary_slice(pc.binary_join_element_wise(short, padding, b""), 0, width)
    return np.frombuffer(padded.buffers()[2], np.uint8, len(column) * width).reshape(-1, width)


def _without_accents(column: pa.Array) -> pa.Array:
    """Letters without marks, where there is any beyond ASCII."""
    try:
        texts = column.cast(pa.string())
    except pa.ArrowInvalid:  # cut within a letter, or no text at all
        return column
    if pc.all(pc.string_is_ascii(texts)).as_py() is not False:
        return column
    letters = pc.replace_substring_regex(pc.utf8_normalize(texts, "NFKD"), r"\p{Mn}", "")
    return pc.utf8_upper(letters).cast(pa.binary())
