"""What a join may ask of R.

`mysql/` answers from a real server, `memory.py` from an Arrow table, `charged.py` by arithmetic on a virtual clock.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy.typing as npt
import pyarrow as pa

from pipeline.counters import Counters

KEY = "key"  # the name of the key column in every table the port returns


@dataclass(frozen=True)
class MasterStatistics:
    """The size of R, as the cost models need it."""

    rows: int
    row_bytes: float  # mean width of a returned row in Arrow, the key included
    key_bytes: int = 0  # the longest key of the sample: 8 for integers, 0 for an empty table


@dataclass(frozen=True)
class Scan:
    """The next rows of a cyclic scan of R."""

    rows: pa.Table
    position: bytes | None  # opaque: of the last row read; None: the end of R was reached
    reached: bool  # nothing is left up to the bound of the scan (up to the end of R, if it had none)


AnswerOf = TypeVar("AnswerOf", covariant=True)


class UnderWay(Protocol[AnswerOf]):
    """A read that was asked for: the server works on it while the caller does something else."""

    def answer(self) -> AnswerOf:
        """Wait for it."""
        ...

    def abandon(self) -> None:
        """The answer is not wanted any more."""
        ...


@dataclass
class ReadCount(Counters):
    """Reads of one kind."""

    queries: int = 0
    rows: int = 0
    bytes: int = 0
    seconds: float = 0.0  # that the caller waited for the answers and their decoding
    failures: int = 0  # attempts that failed, retried or not
    waited: float = 0.0  # seconds of these for the load contract: the server was not asked yet


@dataclass
class Reads:
    """What was asked of the master, by kind: lookup, page, scan, keys, describe (catalogue, statistics, borders)."""

    by_kind: dict[str, ReadCount] = field(default_factory=lambda: defaultdict(ReadCount))

    @property
    def total(self) -> ReadCount:
        return sum(self.by_kind.values(), ReadCount())

    def __add__(self, other: Reads) -> Reads:
        return _reads({kind: self._of(kind) + other._of(kind) for kind in self.by_kind | other.by_kind})

    def __sub__(self, other: Reads) -> Reads:
        return _reads({kind: count - other._of(kind) for kind, count in self.by_kind.items()})

    def _of(self, kind: str) -> ReadCount:
        return self.by_kind.get(kind, ReadCount())


def _reads(counts: dict[str, ReadCount]) -> Reads:
    """What is not in it counts nothing."""
    return Reads(defaultdict(ReadCount, counts))


class Master(Protocol):
    """One master table, read-only.

    Keys are `int64` or `binary` (strings as UTF-8, composite keys packed by `pipeline.keys`). They are equal when their
    bytes are, whatever the database's collation thinks. Every returned table has the column `key`, then the
    contract's columns: `surrogate_key`, `updated_at`, the attributes. A read that fails is retried and then raises
    `MasterReadFailed`; it is never an empty answer.
    """

    reads: Reads

    @property
    def unique(self) -> bool:
        """A unique index proves that a key has at most one row."""
        ...

    @property
    def indexed(self) -> bool:
        """Look-ups, pages and borders have an index on the key. Without one only a scan is possible."""
        ...

    @property
    def key_type(self) -> pa.DataType: ...

    @property
    def schema(self) -> pa.Schema:
        """The schema of every returned table."""
        ...

    def lookup(self, keys: pa.Array) -> pa.Table:
        """All rows whose key is among `keys` (distinct, not null), in any order, in one query."""
        ...

    def begin_lookup(self, keys: pa.Array) -> UnderWay[pa.Table]:
        """As `lookup`, without waiting for the answer. As many reads are at work at once as there are connections; if
        there are as many already, the answer to the oldest is waited for first."""
        ...

    def lookup_from(self, keys: pa.Array, position: bytes | None, rows: int) -> Scan:
        """A look-up in pieces: at most `rows` of the rows with these keys, behind `position` (None: the first ones).

        `reached`: there are no more. A position is good for the same keys only. A row that is there throughout is
        delivered exactly once, in whichever order. For keys with more rows than would fit into memory.
        """
        ...

    def scan(self, position: bytes | None, rows: int, until: bytes | None = None) -> Scan:
        """The next rows behind `position` (None: from the start), not beyond `until` (inclusive; None: to the end).

        `until` is a place of an earlier scan that lies at or behind `position`.
        Needs no index on the key, and a key may come many times. Rows whose key is null are read, but not
        delivered. A row that is there throughout a cycle is delivered exactly once in it. When nothing is left up to
        `until`, the position is `until`; when nothing is left at all, it is None and the next cycle may begin.
        """
        ...

    def begin_scan(self, position: bytes | None, rows: int, until: bytes | None = None) -> UnderWay[Scan]:
        """As `scan`, without waiting for the answer."""
        ...

    def borders(self, rows: int) -> pa.Array:
        """The first keys of R's pages of `rows` rows each, in the index's own order. Reads the whole index, once."""
        ...

    def keys(self, behind: Any | None, rows: int) -> pa.Array:
        """The next keys of R in the index's own order, behind this one (None: the first ones), from the index alone: at
        most so many, and none only when none is left. Whoever goes on so from the first ones to the end sees every
        key that is there throughout.
        """
        ...

    def page(self, first: Any | None, until: Any | None, rows: int, also: pa.Array | None = None) -> pa.Table:
        """At most `rows` rows with first <= key < until in the index's own order (None: open).

        As many rows as asked for may not be all. Plus all rows whose key is among `also`: with them the answer proves
        whether those keys exist, wherever they sort. No row comes twice.
        """
        ...

    def begin_page(
        self, first: Any | None, until: Any | None, rows: int, also: pa.Array | None = None
    ) -> UnderWay[pa.Table]:
        """As `page`, without waiting for the answer."""
        ...

    def order(self, keys: pa.Array) -> npt.NDArray[Any]:
        """Values that sort nearly as the index does: for choosing a page, never for proving an absence."""
        ...

    def statistics(self) -> MasterStatistics: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class ServerFacts:
    """What a server says of itself and of the account it is asked by, for whoever looks after both."""

    version: str
    encryption: str  # of this session; empty: there is none
    more_rights: tuple[str, ...]  # what the account may do beside reading, as the server says it
    ahead: float  # seconds by which its clock is ahead of this machine's, half a round trip more or less
    most_connections: int
    connections: int  # open now, this one included
    lacks_for_a_feed: tuple[str, ...]  # what a feed of the tables' changes would need here


class MasterTable(Master, Protocol):
    """A master table on a server, which may be other than its contract says."""

    def collations(self) -> dict[str, str]:
        """By which the server compares the natural key's columns of text."""
        ...

    def verify(self, needs_unique_index: bool = True) -> list[str]:
        """Compare the table with the contract: fails with every violation, returns what is worth knowing.

        An algorithm that only scans needs no index on the natural key, but one in whose order it can scan.
        """
        ...
