"""More of the joins' inner loops, see inner_loops.py: a Bloom filter of blocks, each key's bits in one of them.

A block is as long as a line of the processor's cache, so a key costs one look into memory, whatever the filter's size.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pipeline.compiling import compiled, numba, part
from pipeline.joins.parts.mixing import mixed

WORDS = 8  # of a block: 512 bits

_MARKS = 7  # bits of a key: with ten bits of room for each key the fewest keys are mistaken
_HALF, _ODD = np.uint64(32), np.uint64(0x9FB21C651E98DF25)
_NINE, _IN_BLOCK, _SIX, _IN_WORD, _ONE = np.uint64(9), np.uint64(511), np.uint64(6), np.uint64(63), np.uint64(1)
_WORDS, _LAST = np.uint64(WORDS), np.uint64(1)

_Codes = numba.types.Array(numba.uint64, 2, "C", readonly=True)
_Bits = numba.types.Array(numba.uint64, 1, "C")
_Flags = numba.types.Array(numba.boolean, 1, "C")
_int = numba.int64


@part
def _block(number: Any, blocks: Any) -> Any:
    """The first word of a key's block."""
    return (((number >> _HALF) * blocks) >> _HALF) * _WORDS


@part
def _places(number: Any) -> Any:
    """Seven numbers of nine bits, and one bit left over."""
    places = number * _ODD
    return (places ^ (places >> _HALF)) >> _LAST


@compiled(_int(_Codes, _Bits))
def mark(codes: Any, bits: Any) -> Any:
    """Note these keys; how many of them the filter did not have, as far as it can tell."""
    new, blocks = 0, np.uint64(len(bits) // WORDS)
    for row in range(len(codes)):
        number = mixed(codes, np.uint64(row))
        first, places, missing = _block(number, blocks), _places(number), False
        for _ in range(_MARKS):
            place = places & _IN_BLOCK
            word, bit = first + (place >> _SIX), _ONE << (place & _IN_WORD)
            missing |= not bits[word] & bit
            bits[word] |= bit
            places >>= _NINE
        new += missing
    return new


@compiled(_Flags(_Codes, _Bits))
def marked(codes: Any, bits: Any) -> Any:
    """Whether each of these keys may have been noted; False is certain."""
    there, blocks = np.empty(len(codes), np.bool_), np.uint64(len(bits) // WORDS)
    for row in range(len(codes)):
        number = mixed(codes, np.uint64(row))
        first, places, all_there = _block(number, blocks), _places(number), True
        for _ in range(_MARKS):
            place = places & _IN_BLOCK
            if not bits[first + (place >> _SIX)] & (_ONE << (place & _IN_WORD)):
                all_there = False
                break
            places >>= _NINE
        there[row] = all_there
    return there
