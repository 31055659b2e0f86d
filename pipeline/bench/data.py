"""What R holds, by the names that experiment files use."""

from __future__ import annotations

from collections.abc import Callable

from pipeline.bench.points import R
from pipeline.generate.zipf import ZipfDraw
from pipeline.master.computed import ComputedRows


def synthetic(R: R) -> ComputedRows:
    """As the papers make it: unique keys, or keys that repeat by Zipf's law."""
    law = None if R.skew is None else ZipfDraw(R.keys or R.rows, R.skew)
    return ComputedRows(R.rows, R.row_bytes, law, scattered=R.order == "scattered")


DATA: dict[str, Callable[[R], ComputedRows]] = {"synthetic": synthetic}


def rows_of(R: R) -> ComputedRows:
    """The rows of R."""
    return DATA[R.data](R)
