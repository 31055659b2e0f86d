"""Products that are asked for and are not there: a share of the keys, chosen by a hash that database and Python share.

They are not taken away but renamed, so the table has as many rows as without.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from pipeline.generate.keys import product_codes

_PARTS = 1_000
_ROWS_A_STATEMENT = 100_000


def make(cursor: Any, rows: int, share: float) -> None:
    """Rename a share of the products."""
    for first in range(0, rows, _ROWS_A_STATEMENT) if share else ():
        ends = product_codes(np.array([first, min(first + _ROWS_A_STATEMENT, rows) - 1])).to_pylist()
        cursor.execute(
            "UPDATE product SET product_code = CONCAT('X', SUBSTRING(product_code, 2)) "
            "WHERE product_code BETWEEN %s AND %s AND CRC32(product_code) %% %s < %s",
            [*ends, _PARTS, share * _PARTS],
        )


def is_missing(code: str, share: float) -> bool:
    """Whether a product has been renamed.

    >>> [is_missing("P-00000002", share) for share in (0.0, 0.6, 1.0)]
    [False, True, True]
    """
    return zlib.crc32(code.encode()) % _PARTS < share * _PARTS
