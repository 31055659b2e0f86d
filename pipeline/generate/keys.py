"""Row r of a generated master table: its natural key and its surrogate key.

The seeder writes these rows and the sales generator draws from them, so neither needs to ask the other. A row's keys
do not depend on the size of its table: a table that grows keeps its rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Rows = npt.NDArray[np.int64]

PRODUCT, CUSTOMER, STORE = 0, 1, 2
DIMENSIONS = ("product", "customer", "store")

_FIRST_CUSTOMER, _CUSTOMER_STEP = 10_007, 3  # not from 0, and with gaps: a row's number is not its key
_PRIME = 2_147_483_647


@dataclass(frozen=True)
class Sizes:
    """Rows of each master table."""

    products: int = 2_000_000
    customers: int = 200_000
    stores: int = 500

    @property
    def by_dimension(self) -> tuple[int, int, int]:
        return self.products, self.customers, self.stores


def product_codes(rows: Rows) -> pa.StringArray:
    """The product codes of these rows; their order as text is the order of the rows.

    >>> product_codes(np.array([0, 1_233])).to_pylist()
    ['P-00000001', 'P-00001234']
    """
    return pc.binary_join_element_wise("P-", digits(rows + 1, 8), "")


def customer_numbers(rows: Rows) -> Rows:
    """The customer numbers of these rows.

    >>> customer_numbers(np.array([0, 1, 2])).tolist()
    [10007, 10010, 10013]
    """
    return rows * _CUSTOMER_STEP + _FIRST_CUSTOMER


def store_codes(rows: Rows) -> pa.StringArray:
    """The store codes of these rows.

    >>> store_codes(np.array([0, 41])).to_pylist()
    ['S-00001', 'S-00042']
    """
    return pc.binary_join_element_wise("S-", digits(rows + 1, 5), "")


def surrogate_keys(dimension: int, rows: Rows) -> Rows:
    """The surrogate keys of these rows: unique, scattered, and beyond 32 bits.

    Each dimension has a range of its own. A join that returns the row's number, the neighbour's key, another
    dimension's key or a truncated integer therefore cannot look right by luck.

    >>> surrogate_keys(PRODUCT, np.array([0, 1, 2])).tolist()
    [10000012345, 11299721548, 10451947104]
    """
    multiplier = (1_299_709_203, 1_103_515_245, 1_406_932_606)[dimension]
    # A multiple of a number below a prime, modulo that prime, is a permutation: no two rows share a key.
    scattered = (rows * multiplier + 12_344) % _PRIME
    return scattered + 1 + 10_000_000_000 * (dimension + 1)


def digits(numbers: Rows, width: int) -> pa.StringArray:
    """Decimal numbers, padded with zeros to at least this width."""
    return pc.utf8_lpad(pc.cast(pa.array(numbers), pa.string()), width, "0")
