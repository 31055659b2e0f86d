"""A master table that is computed, and whose reads cost what a disk of a paper would take, on a virtual clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.errors import BadSetting
from pipeline.master import order
from pipeline.master.asking import need_distinct, need_index, need_rows
from pipeline.master.computed import ComputedRows, Numbers
from pipeline.master.disks import Disk, DiskArm, DiskUse, VirtualClock
from pipeline.master.port import MasterStatistics, ReadCount, Reads, Scan

Answer = TypeVar("Answer")

_POSITION_BYTES = _KEY_BYTES = 8


class ChargedMaster:
    """
    Idea
        Answers the port from rows that are computed (`ComputedRows`), and adds to a virtual clock what each read would
        take on a declared disk. So experiments on the disks of 2007 to 2013 come out the same on any machine, at any
        size of R. It reproduces those disks by declared numbers, and measures nothing: what comes out is as true as
        the numbers that went in (`disks.py` says where they are from).

        | read | costs |
        |---|---|
        | scan | a request and its rows' bytes; nothing if no row is left |
        | page | a seek and its rows' bytes; keys asked for by name that are not on it, as a look-up |
        | look-up | a seek and a page of the disk, for each run of such pages that the page pool does not have |
        | look-up, `chained` | a seek and a page of the disk, for each such page |
        | borders, keys | a request and 8 bytes a row |
        | statistics, order | nothing |

        A look-up of a key without a row reads the page where it would be. The levels of the index above the pages are
        taken to be in memory; where rows lie anywhere (`scattered` with keys that repeat), all of the index. There is
        one disk: a read that is begun while another is under way waits for it, and the caller's own time passes
        meanwhile.

    Memory
        An answer has its rows, R itself has none. `borders(b)` returns R_t / b keys of 8 bytes: 0.8 GB only if b = 1
        and R = 100 M. Where keys repeat, a look-up returns all rows of its keys. The pool keeps page numbers, about
        100 bytes a page.

    Departures from the port
        A scan of rows that lie anywhere goes in the order in which they lie, not in the order of the keys.

    Example
        >>> clock = VirtualClock()
        >>> R = ChargedMaster(ComputedRows(100_000_000), Disk(request=1e-3, seek=5e-3, byte=1e-8), clock)
        >>> R.lookup(pa.array([199_999_998, 7]))["surrogate_key"].to_pylist()
        [100000000]
        >>> round(clock(), 9) == round(2 * 5e-3 + 2 * 16_384 * 1e-8, 9)
        True
    """

    def __init__(
        self,
        rows: ComputedRows,
        disk: Disk,
        clock: VirtualClock,
        pool_bytes: int = 0,
        indexed: bool = True,
        chained: bool = False,
    ) -> None:
        """`chained`: the pages of a key's rows lie anywhere, each a seek for a look-up: overflow chains."""
        if pool_bytes < 0:
            raise BadSetting(f"pool_bytes = {pool_bytes}: a pool has no bytes or more.")
        self.reads = Reads()
        self.rows = rows
        self.clock = clock
        self._indexed = indexed
        self._arm = DiskArm(disk, clock, pool_bytes, chained)
        self._rows_a_page = max(1, disk.page_bytes // rows.row_bytes)
        self._page_bytes = max(disk.page_bytes, rows.row_bytes)

    @property
    def disk_use(self) -> DiskUse:
        """What all reads so far have cost."""
        return self._arm.use

    @property
    def pool_pages(self) -> int:
        """Pages in the pool; it is full when they are `pool_capacity`."""
        return len(self._arm.pool)

    @property
    def pool_capacity(self) -> int:
        return self._arm.pool.capacity

    def fill_pool(self, keys: pa.Array) -> None:
        """These keys were looked up before, one after the other: their pages are in the pool, and it cost nothing."""
        first, end = self._ranges(keys)
        if self.rows.unique:
            self._arm.pool.missing(self._pages_of(np.minimum(first, self.rows.rows - 1)).tolist())
            return
        for key in range(len(first)):
            self._arm.pool.missing(self._pages(first[key : key + 1], end[key : key + 1]).tolist())

    @property
    def unique(self) -> bool:
        return self.rows.unique and self._indexed

    @property
    def indexed(self) -> bool:
        return self._indexed

    @property
    def key_type(self) -> pa.DataType:
        return pa.int64()

    @property
    def schema(self) -> pa.Schema:
        return self.rows.schema

    def lookup(self, keys: pa.Array) -> pa.Table:
        return self.begin_lookup(keys).answer()

    def begin_lookup(self, keys: pa.Array) -> _Begun[pa.Table]:
        need_index(self._indexed, "a look-up")
        need_distinct(keys, self.key_type)
        if not len(keys):
            return _Begun(self.schema.empty_table(), lambda: None)
        first, end = self._ranges(keys)
        done = self._arm.read_at(0, self._pages(first, end), self._page_bytes)
        return self._begun("lookup", np.sort(_numbers(first, end)), done, lambda rows: rows)

    def lookup_from(self, keys: pa.Array, position: bytes | None, rows: int) -> Scan:
        need_index(self._indexed, "a look-up")
        need_distinct(keys, self.key_type)
        need_rows(rows)
        if not len(keys):
            return Scan(self.schema.empty_table(), None, True)
        first, end = self._ranges(keys)
        in_order = np.argsort(first, kind="stable")
        first, end = first[in_order], end[in_order]
        if position is not None:
            ahead = (end > _place(position) + 1) | (first > _place(position))
            first, end = np.maximum(first[ahead], _place(position) + 1), end[ahead]
        ranges = 1 + int(np.searchsorted(np.cumsum(end - first), rows))
        first, end = first[:ranges], end[:ranges]
        numbers = _numbers(first, end)[:rows]
        reached = len(numbers) < rows
        if not reached:
            end[-1] = numbers[-1] + 1
        done = self._arm.read_at(0, self._pages(first, end), self._page_bytes)
        last = None if reached else int(numbers[-1]).to_bytes(_POSITION_BYTES, "big")
        return self._begun("lookup", numbers, done, lambda table: Scan(table, last, reached)).answer()

    def scan(self, position: bytes | None, rows: int, until: bytes | None = None) -> Scan:
        return self.begin_scan(position, rows, until).answer()

    def begin_scan(self, position: bytes | None, rows: int, until: bytes | None = None) -> _Begun[Scan]:
        need_rows(rows)
        first = 0 if position is None else _place(position) + 1
        bound = self.rows.rows if until is None else max(first, _place(until) + 1)
        end = min(bound, first + rows)
        done = self._arm.read_on((end - first) * self.rows.row_bytes)
        last = until if end - first < rows else int(end - 1).to_bytes(_POSITION_BYTES, "big")
        reached = end - first < rows or last == until
        numbers = self.rows.numbers_at(np.arange(first, end))
        return self._begun("scan", numbers, done, lambda table: Scan(table, last, reached))

    def borders(self, rows: int) -> pa.Array:
        need_index(self._indexed, "a list of borders")
        keys = pa.array(self.rows.keys_at(np.arange(0, self.rows.rows, rows)))
        self._wait("describe", self._arm.read_on(_KEY_BYTES * self.rows.rows), len(keys), keys.nbytes)
        return keys if self.rows.unique else keys.unique()

    def keys(self, behind: Any | None, rows: int) -> pa.Array:
        need_index(self._indexed, "a list of keys")
        need_rows(rows)
        first = 0 if behind is None else int(self.rows.behind(np.array([behind]))[0])
        keys = pa.array(self.rows.keys_at(np.arange(first, max(first, min(self.rows.rows, first + rows)))))
        self._wait("keys", self._arm.read_on(_KEY_BYTES * len(keys)), len(keys), keys.nbytes)
        return keys

    def page(self, first: Any | None, until: Any | None, rows: int, also: pa.Array | None = None) -> pa.Table:
        return self.begin_page(first, until, rows, also).answer()

    def begin_page(
        self, first: Any | None, until: Any | None, rows: int, also: pa.Array | None = None
    ) -> _Begun[pa.Table]:
        need_index(self._indexed, "a page")
        start = 0 if first is None else int(self.rows.first_at(np.array([first]))[0])
        bound = self.rows.rows if until is None else int(self.rows.first_at(np.array([until]))[0])
        end = max(start, min(bound, start + rows))
        numbers, named = np.arange(start, end), np.empty(0, np.int64)
        if also is not None and len(also):
            need_distinct(also, self.key_type)
            of_named = self._ranges(also)
            keys = np.asarray(also)
            here = (of_named[1] <= end) & ((keys >= first) if first is not None else True)
            here &= (keys < until) if until is not None else True
            named = self._pages(of_named[0][~here], of_named[1][~here])
            numbers = np.concatenate([numbers, np.setdiff1d(_numbers(*of_named), numbers)])
        if self.rows.clustered:
            done = self._arm.read_at((end - start) * self.rows.row_bytes, named, self._page_bytes)
        else:
            both = np.union1d(self._pages(np.array([start]), np.array([end])), named)
            done = self._arm.read_at(0, both, self._page_bytes)
        return self._begun("page", numbers, done, lambda table: table)

    def order(self, keys: pa.Array) -> npt.NDArray[Any]:
        return order.of_integers(keys)

    def statistics(self) -> MasterStatistics:
        return MasterStatistics(self.rows.rows, self.rows.row_bytes, key_bytes=_KEY_BYTES)

    def close(self) -> None:
        pass

    def _ranges(self, keys: pa.Array) -> tuple[Numbers, Numbers]:
        """The rows of each key: from the first, to the one behind the last."""
        wanted = np.asarray(keys)
        return self.rows.first_at(wanted), self.rows.behind(wanted)

    def _pages(self, first: Numbers, end: Numbers) -> Numbers:
        """The pages of the disk that these ranges of rows lie on, or would lie on."""
        there = np.minimum(first, self.rows.rows - 1)
        if self.rows.clustered:
            last = np.maximum(end, there + 1) - 1
            return np.unique(_numbers(self._pages_of(there), self._pages_of(last) + 1))
        return np.unique(self._pages_of(self.rows.places_of(_numbers(first, end))))

    def _pages_of(self, places: Numbers) -> Numbers:
        """The page of the disk that each place of a row is on."""
        return places // self._rows_a_page

    def _wait(self, kind: str, done: float, rows: int, nbytes: int) -> None:
        began = self.clock()
        self.clock.wait_until(done)
        self.reads.by_kind[kind] += ReadCount(1, rows, nbytes, self.clock() - began)

    def _begun(self, kind: str, numbers: Numbers, done: float, made: Callable[[pa.Table], Answer]) -> _Begun[Answer]:
        table = self.rows.table(numbers)

        def wait() -> None:
            self._wait(kind, done, len(table), table.nbytes)

        return _Begun(made(table), wait)


@dataclass(frozen=True)
class _Begun(Generic[Answer]):
    """A read that was asked for: the disk is at it."""

    result: Answer
    wait: Callable[[], None]

    def answer(self) -> Answer:
        self.wait()
        return self.result

    def abandon(self) -> None:
        """The disk reads it all the same."""


def _numbers(first: Numbers, end: Numbers) -> Numbers:
    """All numbers of these ranges, one range after the other."""
    lengths = np.maximum(end - first, 0)
    ends = np.cumsum(lengths)
    return np.repeat(first - (ends - lengths), lengths) + np.arange(ends[-1] if len(ends) else 0)


def _place(position: bytes) -> int:
    return int.from_bytes(position, "big")
