"""Keys as rows of machine words: equal words, equal keys, and every comparison is array arithmetic."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Codes = npt.NDArray[np.uint64]  # one row a key

_WORD = 8  # bytes
_LEAST_WORDS, MOST_WORDS = 2, 8  # for texts: exact up to 15 bytes at least, up to 63 at most; a digest has 120 bits
LONG_KEY_BYTES = 240  # what it takes to know a long key again
_DIGEST = 0xFF  # in the last byte, where an exact code has the key's length
_MASKS = np.array([(1 << (8 * kept)) - 1 for kept in range(_WORD + 1)], np.uint64)


class KeyCoder:
    """
    Idea
        An integer is its own word. A text is its bytes, zeros, and its length in the very last byte, so that "a" and
        "a\\0" differ. A text too long for that is a cryptographic digest of it, marked in the last byte: two different
        keys never share a code, for any practical meaning of never.

    Memory
        8 * `words` bytes a key.

    Example
        >>> coder = KeyCoder(pa.binary(), longest=9)
        >>> codes = coder.encode(pa.array([b"ale", b"ale\\0", b"ale", b"a" * 99], pa.binary()))
        >>> codes.shape, [(code == codes[0]).all().item() for code in codes]
        ((4, 2), [True, False, True, False])
        >>> coder.decode(codes[:2]).to_pylist(), coder.decode(codes[3:])[0].as_py() == b"a" * 99
        ([b'ale', b'ale\\x00'], True)
    """

    def __init__(self, key_type: pa.DataType, longest: int) -> None:
        """`longest`: bytes of the longest key to expect; longer ones cost a digest each, and are right all the same."""
        self.is_integer = pa.types.is_integer(key_type)
        wanted = -(-(longest + 1) // _WORD)
        self.words = 1 if self.is_integer else min(max(wanted, _LEAST_WORDS), MOST_WORDS)
        self.longest = _WORD * self.words - 1  # bytes of a key that is its own code
        self._long: dict[bytes, Any] = {}  # code -> key (where it lies among the sales), of those that have a digest

    def encode(self, keys: pa.Array, remember: bool = True) -> Codes:
        """The codes of keys without nulls. `remember`: so that `decode` knows the long ones again."""
        if self.is_integer:
            return np.asarray(keys).view(np.uint64).reshape(-1, 1)
        codes = np.empty((len(keys), self.words), np.uint64)
        if not len(keys):
            return codes
        offsets = np.frombuffer(keys.buffers()[1], np.int32, len(keys) + 1, keys.offset * 4)
        lengths = np.diff(offsets)
        words, starts = _every_word(keys.buffers()[2], int(offsets[0]), int(offsets[-1]))
        first = offsets[:-1] - starts
        for word in range(self.words):
            kept = np.clip(lengths - _WORD * word, 0, _WORD)
            codes[:, word] = words[np.minimum(first + _WORD * word, len(words) - 1)] & _MASKS[kept]
        codes[:, -1] |= lengths.astype(np.uint64) << np.uint64(56)
        for row in np.flatnonzero(lengths > self.longest):
            codes[row] = self._digest(keys[row], remember)
        return codes

    def _digest(self, key: Any, remember: bool) -> Codes:
        code = blake2b(key.as_py(), digest_size=self.longest).digest() + bytes([_DIGEST])
        if remember:
            self._long[code] = key
        return np.frombuffer(code, np.uint64)

    def decode(self, codes: Codes) -> pa.Array:
        """The keys again, in the master's key type."""
        if self.is_integer:
            return pa.array(np.ascontiguousarray(codes[:, 0]).view(np.int64))
        codes = np.ascontiguousarray(codes)
        raw = codes.view(np.uint8).reshape(len(codes), _WORD * codes.shape[1])
        lengths = raw[:, -1]
        if (lengths == _DIGEST).any():
            texts = [self._long[r.tobytes()].as_py() if r[-1] == _DIGEST else r[: r[-1]].tobytes() for r in raw]
            return pa.array(texts, pa.binary())
        offsets = np.zeros(len(codes) + 1, np.int32)
        np.cumsum(lengths, out=offsets[1:])
        data = raw[np.arange(raw.shape[1], dtype=np.uint8) < lengths[:, None]]
        return pa.Array.from_buffers(pa.binary(), len(codes), [None, pa.py_buffer(offsets), pa.py_buffer(data)])

    def forget(self) -> None:
        """Forget the long keys: no sale in hand has one any more."""
        self._long.clear()

    @property
    def long_keys(self) -> int:
        """How many long keys are remembered."""
        return len(self._long)

    @property
    def nbytes(self) -> int:
        return LONG_KEY_BYTES * len(self._long)


def picked(codes: Codes, numbers: npt.NDArray[Any]) -> Codes:
    """These rows, a negative number counting from the end: ten times faster than an index in brackets."""
    taken: Codes = codes.take(numbers, axis=0, mode="wrap")
    return taken


def _every_word(data: Any, first: int, last: int) -> tuple[Codes, int]:
    """The eight bytes that begin at each byte of the buffer from `first` on, and the offset that is number 0 there."""
    raw = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    if last + _WORD > len(raw):  # a foreign buffer without padding: the last words would reach behind it
        raw, first = np.concatenate([raw[first:last], np.zeros(_WORD, np.uint8)]), first
        return np.ndarray((len(raw) - _WORD + 1,), np.uint64, raw, strides=(1,)), first
    return np.ndarray((len(raw) - _WORD + 1,), np.uint64, raw, strides=(1,)), 0
