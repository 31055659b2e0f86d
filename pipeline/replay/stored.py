"""What stands in a table at some offsets, and which of its columns can be computed again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from pipeline import columns
from pipeline.config.contracts import TableContract
from pipeline.reentry.seen import IDENTITY, Offsets, Place, require
from pipeline.warehouse.log import TableLog

Spans = Mapping[Place, tuple[int, int]]  # of topic and partition: the first offset, and the one behind the last

# How a table is read. By default whole row groups are fetched beforehand, several of them.
A_PIECE_AT_A_TIME: dict[str, Any] = {
    "batch_size": 1 << 16,
    "batch_readahead": 1,
    "fragment_readahead": 1,
    "fragment_scan_options": ds.ParquetFragmentScanOptions(use_buffered_stream=True, pre_buffer=False),
}


@dataclass
class StoredRows:
    """The rows of one application in one version of a table."""

    log: TableLog
    contract: TableContract
    application: str

    def __post_init__(self) -> None:
        require(self.contract, IDENTITY)
        self._dataset = self.log.table.to_pyarrow_dataset()

    def at(self, spans: Spans) -> pa.Table:
        """By the table's own names, as the contract types them."""
        wanted = reduce(or_, (self._within(*place, *span) for place, span in spans.items()))
        if columns.APPLICATION in self.contract.by_source:
            wanted = wanted & (self._field(columns.APPLICATION) == self.application)
        schema = pa.schema([(column.name, column.type) for column in self.contract.columns])
        batches = self._dataset.to_batches(columns=schema.names, filter=wanted, **A_PIECE_AT_A_TIME)
        found = [pa.table(batch).select(schema.names).cast(schema) for batch in batches if batch.num_rows]
        return pa.concat_tables([schema.empty_table(), *found]).combine_chunks()

    def column(self, rows: pa.Table, source: str) -> pa.ChunkedArray | None:
        """What these rows have from there; None if the contract keeps nothing of it."""
        return rows[self.contract.by_source[source].name] if source in self.contract.by_source else None

    def identities(self, rows: pa.Table) -> list[Any]:
        return [self.column(rows, source) for source in IDENTITY]

    def _within(self, topic: str, partition: int, first: int, end: int) -> Any:
        of_place = (self._field(columns.TOPIC) == topic) & (self._field(columns.PARTITION) == partition)
        return of_place & (self._field(columns.OFFSET) >= first) & (self._field(columns.OFFSET) < end)

    def _field(self, source: str) -> Any:
        return ds.field(self.contract.by_source[source].name)


def computed_of(contract: TableContract, left_out: Sequence[str]) -> TableContract:
    """The columns that are computed again: not those of the fact's later life, nor of dimensions that are left out."""
    kept = [c for c in contract.columns if c.source not in columns.FACT and columns.origin(c.source) not in left_out]
    return replace(contract, columns=tuple(kept), partition_by=())


class Numbering:
    """A number for each message of some spans, by which rows of several tables are compared.

    >>> numbering = Numbering({("a", 0): (5, 9), ("b", 0): (7, 8), ("a", 1): (9, 10)})
    >>> rows = [pa.chunked_array([["a", "b", "a"]]), pa.chunked_array([[0, 0, 1]]), pa.chunked_array([[7, 7, 9]])]
    >>> numbering.of(rows).tolist(), numbering.message(5)
    ([2, 4, 5], ('a', 1, 9))
    """

    def __init__(self, spans: Spans) -> None:
        self._begins: dict[Place, tuple[int, int]] = {}  # its first number, and offset
        number = 0
        for place, (first, end) in spans.items():
            self._begins[place], number = (number, first), number + end - first

    def of(self, identities: Sequence[Any]) -> Offsets:
        topic, partition, offset = identities
        numbers, partitions = np.asarray(offset, np.int64).copy(), np.asarray(partition)
        for (of_topic, of_partition), (number, first) in self._begins.items():
            here = np.asarray(pc.equal(topic, of_topic)) & (partitions == of_partition)
            numbers[here] += number - first
        return numbers

    def message(self, number: int) -> tuple[str, int, int]:
        place = [place for place, (begin, _) in self._begins.items() if begin <= number][-1]
        begin, first = self._begins[place]
        return (*place, int(number) - begin + first)


def paired(one: Offsets, other: Offsets) -> tuple[Offsets, Offsets]:
    """The positions of all pairs of equal numbers.

    >>> [positions.tolist() for positions in paired(np.array([7, 8]), np.array([8, 7, 8, 5]))]
    [[0, 1, 1], [1, 0, 2]]
    """
    order = np.argsort(other, kind="stable")
    first, behind = (np.searchsorted(other[order], one, side=side) for side in ("left", "right"))
    times = behind - first
    of_one = np.repeat(np.arange(len(one)), times)
    within = np.arange(len(of_one)) - np.repeat(np.cumsum(times) - times, times)
    return of_one, order[np.repeat(first, times) + within]


def differ(one: pa.ChunkedArray | pa.Array, other: pa.ChunkedArray | pa.Array) -> np.ndarray:
    """Where two columns are not the same, bit for bit: null is the same as null, a NaN as itself, -0.0 not as 0.0.

    >>> differ(pa.array([1.0, 0.0, None, float("nan")]), pa.array([1.0, -0.0, None, float("nan")])).tolist()
    [False, True, False, False]
    """
    one, other = (each.combine_chunks() if isinstance(each, pa.ChunkedArray) else each for each in (one, other))
    if pa.types.is_float64(one.type):
        one, other = one.view(pa.int64()), other.view(pa.int64())
    nulls = np.asarray(one.is_null()), np.asarray(other.is_null())
    unequal = np.asarray(pc.fill_null(pc.not_equal(one, other), False))
    return np.where(nulls[0] | nulls[1], nulls[0] != nulls[1], unequal)
