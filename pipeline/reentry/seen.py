"""What this job's rows of a table say of their messages: read in pieces, and by their offsets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from operator import and_, or_
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from pipeline import columns
from pipeline.config.contracts import TableContract
from pipeline.errors import BadContract
from pipeline.warehouse.log import TableLog

Offsets = npt.NDArray[np.int64]
Place = tuple[str, int]  # topic and partition

IDENTITY = (columns.TOPIC, columns.PARTITION, columns.OFFSET)
_BATCH_ROWS = 1 << 16


def require(contract: TableContract, sources: Sequence[str]) -> None:
    """Refuse a table that does not keep what re-entering goes by."""
    if missing := [source for source in sources if source not in contract.by_source]:
        raise BadContract(
            f"table {contract.name} has no column from {', '.join(map(repr, missing))}, without which it is not known "
            f"which message a row is, or what was in it. Add it to the table's contract: [[column]], name = …, "
            f'type = …, from = "{missing[0]}". Rows that are written already have null there.'
        )


class Seen:
    """The rows of one application in one version of a table."""

    def __init__(self, log: TableLog, contract: TableContract, application: str) -> None:
        self._dataset = log.table.to_pyarrow_dataset()
        self._contract = contract
        self._mine = pc.scalar(True)
        if columns.APPLICATION in contract.by_source:  # several may write to one table
            self._mine = self.field(columns.APPLICATION) == application

    def rows(self, sources: Mapping[str, str], where: Any = None) -> Iterator[pa.RecordBatch]:
        """The columns from these sources, under these names."""
        yield from self._dataset.to_batches(
            columns={name: self.field(source) for name, source in sources.items()},
            filter=self._mine if where is None else self._mine & where,
            batch_size=_BATCH_ROWS,
            batch_readahead=1,
            fragment_readahead=1,
        )

    def offsets(self, wanted: Mapping[Place, Offsets]) -> dict[Place, Offsets]:
        """Which of these offsets it has a row of."""
        if not any(map(len, wanted.values())):
            return {}
        spans = (
            self.of_place(*place)
            & (self.field(columns.OFFSET) >= int(offsets.min()))
            & (self.field(columns.OFFSET) <= int(offsets.max()))
            for place, offsets in wanted.items()
            if len(offsets)
        )
        there: dict[Place, list[Offsets]] = {}
        for some in self.rows({source: source for source in IDENTITY}, reduce(or_, spans)):
            for place, offsets in by_place(some, *IDENTITY).items():
                there.setdefault(place, []).append(np.intersect1d(offsets, wanted[place]))
        return {place: np.unique(np.concatenate(parts)) for place, parts in there.items()}

    def of_place(self, topic: str, partition: int, offset: int | None = None) -> Any:
        values = (topic, partition) if offset is None else (topic, partition, offset)
        return reduce(and_, (self.field(source) == value for source, value in zip(IDENTITY, values, strict=False)))

    def field(self, source: str) -> Any:
        return ds.field(self._contract.by_source[source].name)


def by_place(rows: pa.RecordBatch | pa.Table, topic: str, partition: str, offset: str) -> dict[Place, Offsets]:
    """The offsets in these columns, by topic and partition.

    >>> rows = pa.table({"t": ["a", "b", "a"], "p": [0, 0, 0], "o": [7, 8, 9]})
    >>> {place: offsets.tolist() for place, offsets in by_place(rows, "t", "p", "o").items()}
    {('a', 0): [7, 9], ('b', 0): [8]}
    """
    grouped = pa.table(rows.select([topic, partition, offset])).group_by([topic, partition], use_threads=False)
    found = grouped.aggregate([(offset, "list")])
    places = zip(found[topic].to_pylist(), found[partition].to_pylist(), strict=True)
    lists = (np.asarray(each.values, dtype=np.int64) for each in found[f"{offset}_list"])
    return dict(zip(places, lists, strict=True))
