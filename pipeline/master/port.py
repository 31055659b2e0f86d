"""What a join may ask of R. `mysql.py` answers from a real server, `memory.py` from an Arrow table."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

KEY = "key"  # the name of the key column in every table the port returns


@dataclass(frozen=True)
class MasterStatistics:
    """The size of R, as the cost models need it."""

    rows: int
    row_bytes: float  # mean width of a returned row in Arrow, the key included


@dataclass
class ReadCount:
    """Reads of one kind since the start."""

    queries: int = 0
    rows: int = 0
    bytes: int = 0
    seconds: float = 0.0
    failures: int = 0  # attempts that failed, retried or not


@dataclass
class Reads:
    """What was asked of the master, by kind: lookup, page, scan."""

    by_kind: dict[str, ReadCount] = field(default_factory=lambda: defaultdict(ReadCount))


class Master(Protocol):
    """One master table, read-only.

    Keys are `int64` or `binary` (strings as UTF-8, composite keys packed by `pipeline.keys`). They are equal when their
    bytes are, whatever the database's collation thinks. Every returned table has the column `key`, then the
    contract's columns: `surrogate_key`, `updated_at`, the attributes. A read that fails is retried and then raises
    `MasterReadFailed`; it is never an empty answer.
    """

    reads: Reads

    @property
    def key_type(self) -> pa.DataType: ...

    @property
    def schema(self) -> pa.Schema:
        """The schema of every returned table."""
        ...

    def lookup(self, keys: pa.Array) -> pa.Table:
        """All rows whose key is among `keys` (distinct, not null), in any order, in one query."""
        ...

    def page(self, after: Any | None, rows: int) -> pa.Table:
        """The next rows behind the key `after` (None: the first) in the server's own order; empty at the end."""
        ...

    def page_at(self, key: Any, rows: int) -> pa.Table:
        """The rows from `key` on in the server's own order."""
        ...

    def statistics(self) -> MasterStatistics: ...

    def close(self) -> None: ...
