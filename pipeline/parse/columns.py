"""The columns that a scan writes: Arrow's own buffers, as large as need be, not copied when they are done."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.parse.loops import layout

_FIRST_TEXTS = 1 << 16  # bytes; how many more are needed is told by how many messages have filled them
_BITS = {layout.INT32: 32, layout.DATE: 32, layout.DECIMAL: 128, layout.BOOLEAN: 1}  # of a value; else 64


class Column:
    """The values of one field, or of its texts, for up to `count` messages of `size` bytes together."""

    def __init__(self, kind: int, has_nulls: bool, count: int, size: int) -> None:
        self._has_texts = kind in (layout.TEXT, layout.BASE64)
        self._bits = 32 if self._has_texts else _BITS.get(kind, 64)
        self._values = pa.allocate_buffer(_bytes((count + self._has_texts) * self._bits), resizable=True)
        self._valid = None
        if has_nulls:
            self._valid = pa.allocate_buffer(_bytes(count), resizable=True)
            np.frombuffer(self._valid, np.uint8)[:] = 0xFF
        self._most = size + layout.ROOM if self._has_texts else 0
        self._texts = pa.allocate_buffer(min(_FIRST_TEXTS, self._most), resizable=True)
        if self._has_texts:
            self._offsets[0] = 0
        elif self._bits == 1:
            np.frombuffer(self._values, np.uint8)[:] = 0  # bits are set one by one

    @property
    def _offsets(self) -> npt.NDArray[np.int32]:
        return np.frombuffer(self._values, np.int32)

    def place(self) -> list[int]:
        """The words VALUES, VALID, BYTES and CAPACITY of `layout.py`."""
        valid = 0 if self._valid is None else self._valid.address
        return [self._values.address, valid, self._texts.address, self._texts.size]

    def grow(self, rows: int, done: float) -> None:
        """Make room for more texts, if there are any, when `rows` are written after a part of the messages."""
        if self._has_texts:
            used = int(self._offsets[rows])
            expected = int(used / max(done, 1e-9) * 1.05) + _FIRST_TEXTS
            self._texts.resize(min(self._most, max(expected, self._texts.size * 5 // 4)))

    def array(self, rows: int, of_type: pa.DataType) -> pa.Array:
        """The first rows as a column. Nothing can be written any more."""
        self._values.resize(_bytes((rows + self._has_texts) * self._bits), shrink_to_fit=True)
        buffers = [None, self._values]
        if self._has_texts:
            self._texts.resize(int(self._offsets[rows]), shrink_to_fit=True)
            buffers.append(self._texts)
        if self._valid is not None:
            self._valid.resize(_bytes(rows), shrink_to_fit=True)
            column = pa.Array.from_buffers(of_type, rows, [self._valid, *buffers[1:]])
            if column.null_count:
                return column
        return pa.Array.from_buffers(of_type, rows, buffers, null_count=0)


def _bytes(bits: int) -> int:
    return (bits + 7) // 8
