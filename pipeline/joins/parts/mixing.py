"""A key's code as one number that looks drawn at random: a piece of the compiled loops."""

from __future__ import annotations

from typing import Any

import numpy as np

from pipeline.compiling import part

_ODD = np.array([0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93, 0xC2B2AE3D27D4EB4F], np.uint64)
_HALF, _FIRST = np.uint64(32), np.uint64(0)


@part
def mixed(codes: Any, row: Any) -> Any:
    """64 bits; the upper half and the lower one may be taken for two numbers."""
    number = codes[row, _FIRST] * _ODD[0]
    for word in range(1, codes.shape[1]):
        number ^= number >> _HALF
        number += codes[row, word]
        number *= _ODD[word % 3]
    number ^= number >> _HALF
    number *= _ODD[1]
    return number
