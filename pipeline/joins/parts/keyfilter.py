"""Which keys there are, in ten bits a key. Who is not in it does not exist; one in a hundred that do not passes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pipeline.joins.parts import kernels
from pipeline.joins.parts.keycodes import Codes

BITS = 10  # a key

_BLOCK_WORDS, _BLOCK_BITS, _WORD_BYTES = 8, 512, 8


class KeyFilter:
    """
    Idea
        A Bloom filter. To note a key sets some bits, and no bit is ever taken back: a key that was noted is found for
        ever. Of those that were not, one in a hundred is mistaken for one that was, if there are as many as expected.

    Memory
        ten bits a key.

    Example
        >>> some = KeyFilter(keys=1_000)
        >>> some.note(np.array([[7], [9], [7]], np.uint64))
        >>> some.has(np.array([[9], [8]], np.uint64)).tolist(), some.noted
        ([True, False], 2)

    Reference
        Bloom: Space/Time Trade-offs in Hash Coding with Allowable Errors, CACM 1970; in blocks as in Putze, Sanders,
        Singler: Cache-, Hash- and Space-Efficient Bloom Filters, WEA 2007.
    """

    def __init__(self, keys: int) -> None:
        """`keys`: to expect."""
        self._bits = np.zeros(_BLOCK_WORDS * _blocks(keys), np.uint64)
        self.noted = 0  # distinct keys, as far as it can tell

    @staticmethod
    def bytes_for(keys: int) -> int:
        return _WORD_BYTES * _BLOCK_WORDS * _blocks(keys)

    @property
    def nbytes(self) -> int:
        return self._bits.nbytes

    def note(self, codes: Codes) -> None:
        self.noted += kernels.mark(codes, self._bits)

    def has(self, codes: Codes) -> npt.NDArray[np.bool_]:
        """False: this key was never noted."""
        found: npt.NDArray[np.bool_] = kernels.marked(codes, self._bits)
        return found

    def clear(self) -> None:
        self._bits[:] = 0
        self.noted = 0


def _blocks(keys: int) -> int:
    return max(1, -(-keys * BITS // _BLOCK_BITS))
