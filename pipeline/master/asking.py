"""What may not be asked of a master without a server: a server would refuse it in its own words."""

from __future__ import annotations

import pyarrow as pa

from pipeline.errors import MillraceError


def need_index(indexed: bool, what: str) -> None:
    if not indexed:
        raise MillraceError(f"{what} needs an index on the key, and this master has none; it can only be scanned.")


def need_distinct(keys: pa.Array, key_type: pa.DataType) -> None:
    if keys.type != key_type or keys.null_count or len(keys.unique()) < len(keys):
        raise ValueError(f"a look-up takes distinct {key_type} keys without nulls, not {keys.type}: {keys}")


def need_rows(rows: int) -> None:
    if rows < 1:
        raise ValueError(f"a scan reads at least one row, not {rows}")
