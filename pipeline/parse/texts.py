"""Many short texts as bytes in one buffer, read a character position at a time instead of a text at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_COMMA, _QUOTE = b',"'


@dataclass(frozen=True)
class ByteTexts:
    """Text i is `data[starts[i] : starts[i] + lengths[i]]`."""

    data: Bytes
    starts: Integers
    lengths: Integers

    @classmethod
    def of_array(cls, texts: pa.Array) -> ByteTexts:
        """The values of a string or binary array; a null has length 0."""
        width: Any = np.int64 if texts.type in (pa.large_string(), pa.large_binary()) else np.int32
        _, offsets, data = texts.buffers()
        ends = np.frombuffer(offsets, width)[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
        return cls(np.frombuffer(b"" if data is None else data, np.uint8), ends[:-1], np.diff(ends))

    @classmethod
    def of_raws(cls, raws: list[Any]) -> ByteTexts:
        """The bytes of msgspec's `Raw` values, joined in one call; one by one only if one of them holds a comma."""
        data = np.frombuffer(b",".join(raws) + b",", np.uint8)
        ends = np.flatnonzero(data == _COMMA)
        if len(ends) != len(raws):
            return cls.of_array(pa.array([bytes(raw) for raw in raws], pa.binary()))
        starts = np.concatenate(([0], ends[:-1] + 1))
        return cls(data, starts, ends - starts)

    def unquoted(self) -> tuple[ByteTexts, Mask]:
        """The texts without the quotes round them, and which had some."""
        quoted = np.zeros(len(self.starts), bool)
        if (self.data == _QUOTE).any():
            rows = np.flatnonzero(self.lengths >= 2)
            first = self.starts[rows]
            last = first + self.lengths[rows] - 1
            quoted[rows] = (self.data[first] == _QUOTE) & (self.data[last] == _QUOTE)
        return ByteTexts(self.data, self.starts + quoted, self.lengths - 2 * quoted), quoted

    def by_length(self, shortest: int, longest: int) -> Iterator[tuple[Integers, Bytes]]:
        """For each length that occurs: which texts have it, and their bytes with one row per character position."""
        counts = np.bincount(np.minimum(self.lengths, longest + 1), minlength=longest + 1)
        for length in range(shortest, longest + 1):
            if counts[length]:
                rows = np.flatnonzero(self.lengths == length)
                picked = windows(self.data, length)[self.starts[rows]].view(np.uint8).reshape(-1, length)
                yield rows, np.ascontiguousarray(picked.T)

    def right_aligned(self, longest: int, fill: int) -> Bytes:
        """The last characters of every text, one row per position, with `fill` before the shorter ones.

        There are as many rows as the longest text has characters, but at most `longest`.
        """
        width = int(np.clip(self.lengths.max(), 1, longest))
        data = np.concatenate((np.zeros(width, np.uint8), self.data))  # room before the first text
        picked = windows(data, width)[self.starts + self.lengths].view(np.uint8).reshape(-1, width)
        characters = np.ascontiguousarray(picked.T)
        before = np.arange(width, 0, -1)[:, None] > self.lengths
        characters[before] = fill
        return characters

    def character(self, position: int) -> Bytes:
        """One character of every text; 0 where a text is too short for it."""
        inside = self.lengths > position
        return np.where(inside, self.data[np.where(inside, self.starts + position, 0)], 0)


def windows(data: Bytes, width: int) -> Any:
    """Every run of `width` bytes as one item, so that picking texts copies whole items."""
    return np.ndarray(len(data) - width + 1, f"V{width}", data.data, strides=(1,))
