"""The facts whose master row was not there when they were joined: read from the table in fixed memory.

One version of the table is read, file by file; files and row groups without such facts are left out by their
statistics. Of the others only the columns are read that healing needs. A null natural key has no master row, ever: its
fact is left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from pipeline import columns
from pipeline.config.contracts import DimensionContract, TableContract
from pipeline.errors import BadContract, BadSetting
from pipeline.warehouse.healing import BOUNDED, identity_of
from pipeline.warehouse.log import TableLog

Mask = npt.NDArray[np.bool_]

_BATCH_ROWS = 1 << 16
# Of the files that a window's facts lie in, uncompressed: they are written anew if all goes well.
_MOST_BYTES = 2 << 30


def dimensions_of(
    facts: TableContract, dimensions: dict[str, DimensionContract], wanted: Sequence[str]
) -> list[DimensionContract]:
    """Those that can be healed in this table: all, or those that are wanted by name."""
    able = {name: d for name, d in dimensions.items() if _key_of(d) in facts.by_source}
    if unknown := [name for name in wanted if name not in able]:
        raise BadSetting(
            f"--dimension {unknown[0]}: the facts {facts.name} have a surrogate key of {', '.join(able) or 'none'}. "
            f"Name one of these, or add a column from {unknown[0]}.{columns.SURROGATE_KEY} to the table's contract."
        )
    if not able:
        raise BadContract(
            f"table {facts.name}: no column is the surrogate key of a dimension, so no fact can be known as unknown. "
            f'Add one to the table\'s contract, such as from = "product.{columns.SURROGATE_KEY}".'
        )
    return [d for name, d in able.items() if not wanted or name in wanted]


def require_columns(facts: TableContract, dimensions: Sequence[DimensionContract], by_age: bool) -> None:
    """Refuse facts that do not keep what a repair goes by."""
    needed = dict.fromkeys(identity_of(facts), "tells a fact from all others")
    for dimension in dimensions:
        if dimension.validity:
            needed[columns.of_sale(dimension.validity.at)] = f"says which row of dimension {dimension.name} was valid"
        needed |= dict.fromkeys(natural_key_of(dimension), f"is the natural key of dimension {dimension.name}")
    if by_age:
        needed[columns.TIMESTAMP] = "says how old a fact is (--age-limit)"
    for source, why in needed.items():
        if source not in facts.by_source:
            raise BadContract(
                f"table {facts.name} has no column from {source!r}, which {why}; without it they cannot be healed. "
                f'Add it to the table\'s contract: [[column]], name = …, type = …, from = "{source}". Facts that are '
                f"written already have null there."
            )


class UnknownFacts:
    """Of one version of a table."""

    def __init__(
        self,
        log: TableLog,
        facts: TableContract,
        dimensions: Sequence[DimensionContract],
        since: datetime | None,
        all_cores: bool = True,
    ) -> None:
        self._dataset = log.table.to_pyarrow_dataset()
        self._facts, self._all_cores = facts, all_cores
        sources = [*identity_of(facts), *BOUNDED, columns.TIMESTAMP]
        for dimension in dimensions:
            sources += [*joined_by(dimension), _key_of(dimension)]
        self._sources = [source for source in dict.fromkeys(sources) if source in facts.by_source]
        self._wanted = reduce(lambda one, other: one | other, map(self._is_unknown, dimensions))
        if since is not None:
            self._wanted = self._wanted & (
                self._field(columns.TIMESTAMP) >= pa.scalar(since, pa.timestamp("us", "UTC"))
            )

    def files(self) -> dict[str, Any]:
        """Those that may have some, by their names."""
        return {fragment.path: fragment for fragment in self._dataset.get_fragments(filter=self._wanted)}

    def windows(self, rows: int, files: Iterable[Any] | None = None) -> Iterator[pa.Table]:
        """About so many of them at a time, with the columns that healing needs, by the names of the journey."""
        window: list[pa.RecordBatch] = []
        touched: dict[str, int] = {}
        for file in self.files().values() if files is None else files:
            for batch in self.of(file, rows):
                window.append(batch)
                touched[file.path] = sum(group.total_byte_size for group in file.row_groups)
                if sum(batch.num_rows for batch in window) >= rows or sum(touched.values()) >= _MOST_BYTES:
                    yield pa.Table.from_batches(window)
                    window, touched = [], {}
        if window:
            yield pa.Table.from_batches(window)

    def of(self, file: Any, rows: int = _BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """Those of one file, at most so many at a time."""
        batches = file.to_batches(
            schema=self._dataset.schema,
            columns={source: self._field(source) for source in self._sources},
            filter=self._wanted,
            batch_size=min(rows, _BATCH_ROWS),
            batch_readahead=1,
            use_threads=self._all_cores,
        )
        return (batch for batch in batches if batch.num_rows)

    def _is_unknown(self, dimension: DimensionContract) -> Any:
        unknown = self._field(_key_of(dimension)) == columns.UNKNOWN_MEMBER
        return reduce(lambda one, key: one & self._field(key).is_valid(), joined_by(dimension), unknown)

    def _field(self, source: str) -> Any:
        return ds.field(self._facts.by_source[source].name)


def is_unknown(facts: pa.Table | pa.RecordBatch, dimension: DimensionContract) -> Mask:
    """Which of these facts have all that this dimension is joined by, and no row of its master."""
    unknown = np.asarray(pc.equal(facts[_key_of(dimension)], columns.UNKNOWN_MEMBER))
    for source in joined_by(dimension):
        unknown = unknown & np.asarray(facts[source].is_valid())
    return unknown


def joined_by(dimension: DimensionContract) -> list[str]:
    """A sale without any of these has no master row, ever."""
    return natural_key_of(dimension) + ([columns.of_sale(dimension.validity.at)] if dimension.validity else [])


def natural_key_of(dimension: DimensionContract) -> list[str]:
    return [columns.of_sale(part.field) for part in dimension.natural_key]


def _key_of(dimension: DimensionContract) -> str:
    return columns.of_dimension(dimension.name, columns.SURROGATE_KEY)
